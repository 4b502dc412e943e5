/** Plans of nodes that are directories, for the tests of `migrate plan`. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { MigrationFacts } from "../../../src/migrate/facts/facts.js";
import { gatherFacts } from "../../../src/migrate/node/gather.js";
import { type MigrationPlan, makePlan } from "../../../src/migrate/plan/make-plan.js";
import { defaultProgram } from "../../../src/migrate/plan/shim-unit.js";

export const kubeadmFlags = "/var/lib/kubelet/kubeadm-flags.env";

export type Target = "dockershim" | "dockershim-in-tree" | "cri-dockerd";
export const program = defaultProgram;

export function factsOf(root: string, kubeletVersion: string): Promise<MigrationFacts> {
  const askProgram = (): Promise<undefined> => Promise.resolve(undefined);
  const options = { root, endpoint: "", engine: undefined, kubeletVersion, askProgram };
  return gatherFacts(options, new AbortController().signal);
}

export async function planOf(
  root: string,
  version: string,
  target: Target = "dockershim",
): Promise<MigrationPlan> {
  return makePlan(await factsOf(root, version), { target, program });
}

/** All files below a directory with their texts. */
export function snapshot(root: string): Record<string, string> {
  const files: Record<string, string> = {};
  for (const entry of readdirSync(root, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    files[path.slice(root.length)] = readFileSync(path, "utf8");
  }
  return files;
}
