/** The calls that a kubelet makes all the time, at its pace. */
import { setTimeout as sleep } from "node:timers/promises";
import { connectBytes } from "./cri-bytes.js";

/** Seconds between calls. */
const paces: readonly {
  readonly rpc: string;
  readonly seconds: number;
  readonly onlyWithMetrics?: boolean;
}[] = [
  { rpc: "ListPodSandbox", seconds: 1 },
  { rpc: "ListContainers", seconds: 1 },
  { rpc: "Status", seconds: 5 },
  { rpc: "ListPodSandboxMetrics", seconds: 10, onlyWithMetrics: true },
];

/** Counts of the calls that were answered, by RPC. */
export type CallCounts = Readonly<Record<string, number>>;

/**
 * Relists each second, asks Status every 5 s and statistics every 10 s, metrics too where that is wanted, until `signal`
 * aborts. Throws when a call fails. `statistics`: cri-dockerd has none of sandboxes.
 */
export async function callAsKubelet(
  socket: string,
  {
    metrics,
    statistics = "ListPodSandboxStats",
  }: { readonly metrics: boolean; readonly statistics?: "ListPodSandboxStats" | "ListContainerStats" },
  signal: AbortSignal,
): Promise<CallCounts> {
  using client = connectBytes(socket);
  const counts: Record<string, number> = {};
  const due = [
    ...paces.filter(({ onlyWithMetrics = false }) => metrics || !onlyWithMetrics),
    { rpc: statistics, seconds: 10 },
  ];
  const startMs = performance.now();
  for (let second = 0; !signal.aborted; second += 1) {
    for (const { rpc, seconds } of due) {
      if (second % seconds !== 0) continue;
      await client.call("RuntimeService", rpc);
      counts[rpc] = (counts[rpc] ?? 0) + 1;
    }
    const nextMs = startMs + (second + 1) * 1000;
    await sleep(Math.max(nextMs - performance.now(), 0), undefined, { signal }).catch(() => undefined);
  }
  return counts;
}
