/** Pods that a bench makes, with cgroups as kubelets make them: here the engine makes those, and the bench removes them. */
import { readdir, rmdir } from "node:fs/promises";
import { join } from "node:path";
import type { CriClient } from "../test/support/cri-client.js";
import type { Pod } from "../test/support/pod.js";
import type { TestBed } from "../test/support/test-bed.js";
import { inParallel, say } from "./measure.js";

/** Made or removed at the same time. */
export const creationWidth = 6;
const root = "/sys/fs/cgroup";
const parent = "kubepods-bench";

export interface BenchPod {
  readonly pod: Pod;
  readonly containerId: string;
}

/** Below the directory that `removePodCgroups` removes. */
export function podCgroup(name: string): string {
  return `/${parent}/${name}`;
}

/** With one container that sleeps. */
export async function startBenchPod(bed: TestBed, cri: CriClient, cgroup: string): Promise<BenchPod> {
  const pod = await bed.runPod(cri, { linux: { cgroup_parent: podCgroup(cgroup) } });
  return { pod, containerId: await pod.start({ command: ["sleep", "100000"] }) };
}

export async function startBenchPods(
  bed: TestBed,
  cri: CriClient,
  count: number,
): Promise<readonly BenchPod[]> {
  say(`making ${String(count)} pods`);
  const made: BenchPod[] = [];
  await inParallel(count, creationWidth, async (index) => {
    made.push(await startBenchPod(bed, cri, `pod${String(index)}`));
  });
  return made;
}

/** By another server than the one that made them, where one is given. */
export async function removeBenchPods(pods: readonly BenchPod[], cri?: CriClient): Promise<void> {
  say("removing the pods");
  await inParallel(pods.length, creationWidth, async (index) => {
    const pod = pods[index]?.pod;
    await (cri === undefined ? pod : pod?.through(cri))?.[Symbol.asyncDispose]();
  });
}

/** To be called when the containers are gone. What is still in use stays; nothing is there on a host without cgroups. */
export async function removePodCgroups(): Promise<void> {
  // Version 1 has a tree for each controller, version 2 only one.
  const hierarchies = ["", ...(await readdir(root).catch(() => []))];
  for (const hierarchy of hierarchies) {
    const all = join(root, hierarchy, parent);
    for (const name of await readdir(all).catch(() => [])) {
      // Files of the kernel are no directories.
      await rmdir(join(all, name)).catch(() => undefined);
    }
    await rmdir(all).catch(() => undefined);
  }
}
