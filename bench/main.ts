/**
 * How long pod starts, lists and statuses take, compared with the engine calls that they stand for, or with other CRI
 * servers, in the same run on the same engine; see docs/run/performance.md. Makes pods, and removes them again.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { connectCri } from "../test/support/cri-client.js";
import type { ShimProcess } from "../test/support/shim-process.js";
import { TestBed } from "../test/support/test-bed.js";
import { removeBenchPods, removePodCgroups, startBenchPods } from "./bench-pods.js";
import { benchChurn } from "./churn.js";
import { formatChurn } from "./churn-report.js";
import { benchContainers, formatContainers } from "./containers.js";
import { benchFullNode, formatFullNode } from "./full-node.js";
import { benchIdle, formatIdle } from "./idle.js";
import { benchKills, formatKills } from "./kills.js";
import { benchLogs, formatLogs } from "./logs.js";
import { say, profiling } from "./measure.js";
import { benchNetworks, formatNetworks } from "./networks.js";
import { parseOptions, usage, type BenchOptions } from "./options.js";
import { benchPlay, formatPlay } from "./play.js";
import { benchPrograms, formatPrograms } from "./programs.js";
import { compareReads, plainReads } from "./reads.js";
import { formatReport, loadNow, machine, type Report } from "./report.js";
import { listenerOf } from "./server-processes.js";
import { benchServers } from "./servers.js";
import { formatServers } from "./servers-report.js";
import { benchStats } from "./stats.js";
import { compareStreaming } from "./streaming.js";
import { compareContainerStarts, comparePodStarts, recordBodies } from "./starts.js";

/** After the pods are made: their events are still being worked off. */
const settleMs = 5_000;

const options = parseOptions(process.argv.slice(2));
if (options === undefined) process.stdout.write(usage);
else await run(options);

async function run(options: BenchOptions): Promise<void> {
  const show = <T>(report: T, format: (report: T) => string): void => {
    process.stdout.write(options.json ? `${JSON.stringify(report, null, 2)}\n` : format(report));
  };
  const { containers, churn, fullNode, kills, logs, profile } = options;
  if (options.networks) {
    show(await benchNetworks(), formatNetworks);
    return;
  }
  if (containers !== undefined) {
    show(await benchContainers(options, containers), formatContainers);
    return;
  }
  const bed = await TestBed.open();
  try {
    if (options.idle) show(await benchIdle(options, bed), formatIdle);
    if (churn !== undefined) show(await benchChurn({ ...options, churn }, bed), formatChurn);
    if (fullNode !== undefined) show(await benchFullNode({ ...options, fullNode }, bed), formatFullNode);
    if (kills !== undefined) show(await benchKills({ ...options, kills }, bed), formatKills);
    if (options.idle || [churn, fullNode, kills].some((one) => one !== undefined)) return;
    if (options.stats) show(await benchStats(options, bed), formatReport);
    else if (options.programs.length > 0) show(await benchPrograms(options, bed), formatPrograms);
    else if (options.play) show(await benchPlay(bed, options.starts), formatPlay);
    else if (logs !== undefined) show(await benchLogs(bed, logs, profile), formatLogs);
    else if (options.streaming) show(await benchSessions(options, bed), formatReport);
    else if (options.others.length > 0) show(await benchServers(options, bed), formatServers);
    else show(await bench(options, bed), formatReport);
  } finally {
    await bed.close();
    await removePodCgroups();
  }
}

async function bench({ pods, starts, reads, flags, profile }: BenchOptions, bed: TestBed): Promise<Report> {
  const before = loadNow();
  const proxy = await bed.startProxy();
  const counted = await bed.startShim({ dockerEndpoint: proxy.endpoint, flags });
  const bodies = await recordBodies(bed, proxy, counted.cri);
  // While starts are timed, only one shim follows the engine's events.
  await counted.stop();

  const startShim = (): Promise<ShimProcess> => bed.startShim({ flags, nodeFlags: profiling(profile) });
  let shim = await startShim();
  say(`pod starts, ${String(starts)} rounds`);
  const podStarts = await comparePodStarts(bed, shim.cri, bodies, starts);
  say(`container starts, ${String(starts)} rounds`);
  const containerStarts = await compareContainerStarts(bed, shim.cri, bodies, starts);
  if (profile !== undefined) {
    await shim.stop();
    shim = await startShim();
  }

  const made = await startBenchPods(bed, shim.cri, pods);
  const [first] = made;
  if (first === undefined) throw new Error("no pod was made");
  const second = await bed.startShim({ dockerEndpoint: proxy.endpoint, flags });
  await sleep(settleMs);
  say(`reads, ${String(reads)} rounds`);
  const subject = { sandboxId: first.pod.id, containerId: first.containerId, image: bed.image };
  const readings = await compareReads(
    plainReads(subject),
    [{ name: "dockershim", socket: shim.socket }],
    { socket: second.socket, proxy },
    reads,
  );
  await second.stop();
  const after = loadNow();
  await removeBenchPods(made);
  await shim.stop();

  return {
    machine: await machine(),
    load: [before, after],
    pods,
    comparisons: [podStarts, containerStarts, ...readings],
  };
}

async function benchSessions(
  { others, mebibytes, flags, profile }: BenchOptions,
  bed: TestBed,
): Promise<Report> {
  const before = loadNow();
  const shim = await bed.startShim({ flags, nodeFlags: profiling(profile) });
  const comparisons = await compareStreaming(bed, mebibytes * 1024 * 1024, [
    { name: "dockershim", cri: shim.cri, pid: shim.pid },
    ...others.map((socket) => ({ name: socket, cri: connectCri(socket), pid: listenerOf(socket) })),
  ]);
  return { machine: await machine(), load: [before, loadNow()], pods: 1, comparisons };
}
