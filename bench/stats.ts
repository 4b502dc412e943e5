/** Statistics of all pods against the engine's own, one request per container, as `docker stats --no-stream` makes them. */
import { setTimeout as sleep } from "node:timers/promises";
import { docker } from "../test/support/docker.js";
import type { TestBed } from "../test/support/test-bed.js";
import { removeBenchPods, startBenchPods } from "./bench-pods.js";
import { inParallel, say } from "./measure.js";
import type { BenchOptions } from "./options.js";
import { compareReads, type Read } from "./reads.js";
import { loadNow, machine, type Report } from "./report.js";

const settleMs = 5_000;
/** Requests at once, as the shim's own limit on reads. */
const rawWidth = 32;
const warmUpRounds = 10;

function reads(containerIds: readonly string[], sandboxIds: readonly string[]): readonly Read[] {
  // One-shot, in favour of the engine: without it each answer takes it a second or two.
  const raw = (ids: readonly string[]): Promise<void> =>
    inParallel(ids.length, rawWidth, async (index) => {
      await docker("GET", `/containers/${ids[index] ?? ""}/stats?stream=false&one-shot=true`);
    });
  const all = [...containerIds, ...sandboxIds];
  const read = (rpc: string, ids: readonly string[]): Read => ({
    title: rpc,
    rawCalls: `${String(ids.length)} × stats`,
    call: (client) => client.call("RuntimeService", rpc),
    raw: () => raw(ids),
  });
  return [
    read("ListContainerStats", containerIds),
    read("ListPodSandboxStats", all),
    read("ListPodSandboxMetrics", all),
  ];
}

export async function benchStats(
  { pods, reads: rounds, others, flags }: BenchOptions,
  bed: TestBed,
): Promise<Report> {
  const before = loadNow();
  const shim = await bed.startShim({ flags });
  const made = await startBenchPods(bed, shim.cri, pods);
  const proxy = await bed.startProxy();
  const counted = await bed.startShim({ dockerEndpoint: proxy.endpoint, flags });
  await sleep(settleMs);
  const contenders = [
    { name: "dockershim", socket: shim.socket },
    ...others.map((socket) => ({ name: socket, socket })),
  ];
  say(`statistics, ${String(rounds)} rounds`);
  const comparisons = await compareReads(
    reads(
      made.map(({ containerId }) => containerId),
      made.map(({ pod }) => pod.id),
    ),
    contenders,
    { socket: counted.socket, proxy },
    rounds,
    warmUpRounds,
  );
  const after = loadNow();
  await counted.stop();
  await removeBenchPods(made);
  await shim.stop();
  return {
    machine: await machine(),
    load: [before, after],
    pods,
    comparisons,
  };
}
