/** Manifests for the tests of Services. */
import { readWorkloads } from "../../../../src/play/manifests/read-manifests.js";
import type { Workloads } from "../../../../src/play/manifests/workloads.js";

export function workloads(text: string): Promise<Workloads> {
  return readWorkloads([{ name: "all.yaml", text }]);
}

export function serviceText(name: string, spec: string): string {
  return `---\napiVersion: v1\nkind: Service\nmetadata: {name: ${name}}\nspec: {${spec}}\n`;
}

/** `spec` ends with a comma. */
export function podText(name: string, labels: string, spec = "", ports = ""): string {
  const container = `{name: c, image: busybox:1${ports === "" ? "" : `, ports: [${ports}]`}}`;
  const metadata = `metadata: {name: ${name}, labels: {${labels}}}`;
  return `---\napiVersion: v1\nkind: Pod\n${metadata}\nspec: {${spec}containers: [${container}]}\n`;
}
