/** What the shim does while nothing happens: a kubelet asks at its pace, and no pod changes. */
import { setTimeout as sleep } from "node:timers/promises";
import { describeRequest } from "../test/support/engine-proxy.js";
import type { TestBed } from "../test/support/test-bed.js";
import { removeBenchPods, startBenchPods } from "./bench-pods.js";
import { callAsKubelet } from "./kubelet-calls.js";
import { say } from "./measure.js";
import type { BenchOptions } from "./options.js";
import { cpuSecondsOf, descriptorsOf, residentMebibytesOf } from "./process-usage.js";
import { coreCount, loadLine, loadNow } from "./report.js";

export type IdleReport = Awaited<ReturnType<typeof benchIdle>>;

/** The first three measurements of each layer, log files and the like are over by then. */
const settleMs = 75_000;

export async function benchIdle({ pods, seconds, flags }: BenchOptions, bed: TestBed) {
  const before = loadNow();
  const proxy = await bed.startProxy();
  const shim = await bed.startShim({ dockerEndpoint: proxy.endpoint, flags });
  const made = await startBenchPods(bed, shim.cri, pods);
  const end = new AbortController();
  const calling = callAsKubelet(shim.socket, { metrics: false }, end.signal);
  // A call that fails ends the measurement, not the process.
  calling.catch(() => undefined);
  await Promise.race([sleep(settleMs), calling]);
  say(`measuring for ${String(seconds)} s`);
  proxy.forget();
  const cpu = cpuSecondsOf(shim.pid);
  const startMs = performance.now();
  await Promise.race([sleep(seconds * 1000), calling]);
  const tookSeconds = (performance.now() - startMs) / 1000;
  const shimShare = (cpuSecondsOf(shim.pid) - cpu) / tookSeconds;
  const requests: Record<string, number> = {};
  for (const request of proxy.requests) {
    const kind = describeRequest(request);
    requests[kind] = (requests[kind] ?? 0) + 60 / tookSeconds;
  }
  const usage = { residentMebibytes: residentMebibytesOf(shim.pid), descriptors: descriptorsOf(shim.pid) };
  end.abort();
  const calls = await calling;
  await removeBenchPods(made);
  await shim.stop();
  return {
    cores: coreCount(),
    load: [before, loadNow()],
    pods,
    seconds: tookSeconds,
    /** Of one core, 1 is all of it. */
    shimShare,
    calls,
    /** Of the shim to the engine, by kind. */
    engineRequestsPerMinute: requests,
    ...usage,
  };
}

export function formatIdle(report: IdleReport): string {
  const { cores, load, pods, seconds, shimShare, engineRequestsPerMinute: requests } = report;
  const perMinute = Object.values(requests).reduce((sum, count) => sum + count, 0);
  return [
    loadLine(cores, load),
    `${String(pods)} pods with one container each, ${seconds.toFixed(0)} s; lists each second, Status every 5 s, statistics every 10 s`,
    "",
    "| what | |",
    "| --- | --- |",
    `| shim, of one core | ${(shimShare * 100).toFixed(2)} % |`,
    `| resident memory | ${report.residentMebibytes.toFixed(1)} MiB |`,
    `| open files | ${String(report.descriptors)} |`,
    `| engine requests per minute | ${perMinute.toFixed(1)} |`,
    ...Object.entries(requests).map(([kind, count]) => `| – ${kind} | ${count.toFixed(1)} |`),
    "",
  ].join("\n");
}
