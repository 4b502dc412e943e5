/** What an executable has inside, as CycloneDX. */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const packageName = /node_modules\/((?:@[^/]+\/)?[^/]+)\//g;

/**
 * @param {{ root: string, inputs: readonly string[], version: string, epoch: number, node: NodeJS.Dict<string> }} options
 * `inputs`: the files that the program was put together from; `node`: the process.versions of its Node.js
 */
export function billOfMaterials({ root, inputs, version, epoch, node }) {
  /** @type {Set<string>} */
  const directories = new Set();
  for (const input of inputs) {
    const last = [...input.matchAll(packageName)].at(-1);
    if (last !== undefined) directories.add(input.slice(0, last.index + last[0].length - 1));
  }
  const packages = [...directories].sort().map((directory) => {
    const {
      name,
      version: its,
      license,
    } = JSON.parse(readFileSync(join(root, directory, "package.json"), "utf8"));
    return component("library", String(name), String(its), typeof license === "string" ? license : undefined);
  });
  // Those two are numbers of interfaces.
  const contained = Object.entries(node).filter(([name]) => !["node", "modules", "napi"].includes(name));
  const components = [
    component("library", "node", node["node"] ?? "", "MIT", "generic"),
    ...contained.map(([name, its]) => component("library", name, its ?? "", undefined, "generic")),
    ...packages,
  ];
  const serial = createHash("sha256")
    .update(JSON.stringify([version, components]))
    .digest("hex");
  const uuid = [
    serial.slice(0, 8),
    serial.slice(8, 12),
    `4${serial.slice(13, 16)}`,
    `8${serial.slice(17, 20)}`,
  ];
  return `${JSON.stringify(
    {
      bomFormat: "CycloneDX",
      specVersion: "1.5",
      serialNumber: `urn:uuid:${uuid.join("-")}-${serial.slice(20, 32)}`,
      version: 1,
      metadata: {
        timestamp: new Date(epoch * 1000).toISOString(),
        component: component("application", "dockershim", version, "Apache-2.0", "generic"),
      },
      components,
    },
    undefined,
    2,
  )}\n`;
}

/** @type {(type: string, name: string, version: string, license: string | undefined, kind?: string) => object} */
function component(type, name, version, license, kind = "npm") {
  const purl = `pkg:${kind}/${name.replace("@", "%40")}@${version}`;
  return { type, name, version, purl, ...(license && { licenses: [{ license: { id: license } }] }) };
}
