/**
 * How long pod starts, lists and statuses take, compared with the engine calls that they stand for, or with other CRI
 * servers, in the same run on the same engine; see docs/run/performance.md. Makes pods, and removes them again.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { connectCri } from "../test/support/cri-client.js";
import type { Pod } from "../test/support/pod.js";
import type { ShimProcess } from "../test/support/shim-process.js";
import { TestBed } from "../test/support/test-bed.js";
import { benchChurn, formatChurn } from "./churn.js";
import { benchContainers, formatContainers } from "./containers.js";
import { benchIdle, formatIdle } from "./idle.js";
import { benchLogs, formatLogs } from "./logs.js";
import { inParallel } from "./measure.js";
import { benchNetworks, formatNetworks } from "./networks.js";
import { parseOptions, usage, type BenchOptions } from "./options.js";
import { benchPlay, formatPlay } from "./play.js";
import { compareReads, plainReads } from "./reads.js";
import { formatReport, loadNow, machine, type Report } from "./report.js";
import { benchServers } from "./servers.js";
import { formatServers } from "./servers-report.js";
import { benchFrames, formatFrames } from "./streaming-frames.js";
import { benchStats } from "./stats.js";
import { compareStreaming } from "./streaming.js";
import { compareContainerStarts, comparePodStarts, recordBodies } from "./starts.js";
import { removePodCgroups } from "./pod-cgroups.js";

/** Pods that are made at the same time. */
const creationWidth = 6;
/** After the pods are made: their events are still being worked off. */
const settleMs = 5_000;

const options = parseOptions(process.argv.slice(2));
if (options === undefined) process.stdout.write(usage);
else if (options.networks) {
  const shares = await benchNetworks();
  process.stdout.write(options.json ? `${JSON.stringify(shares, null, 2)}\n` : formatNetworks(shares));
} else if (options.streamingFrames) {
  const speeds = await benchFrames();
  process.stdout.write(options.json ? `${JSON.stringify(speeds, null, 2)}\n` : formatFrames(speeds));
} else if (options.containers !== undefined) {
  const report = await benchContainers({ ...options, containers: options.containers, rounds: options.reads });
  process.stdout.write(options.json ? `${JSON.stringify(report, null, 2)}\n` : formatContainers(report));
} else if (options.idle || options.churn !== undefined) {
  const bed = await TestBed.open();
  try {
    if (options.idle) {
      const report = await benchIdle(options, bed);
      process.stdout.write(options.json ? `${JSON.stringify(report, null, 2)}\n` : formatIdle(report));
    }
    if (options.churn !== undefined) {
      const report = await benchChurn({ ...options, churn: options.churn }, bed);
      process.stdout.write(options.json ? `${JSON.stringify(report, null, 2)}\n` : formatChurn(report));
    }
  } finally {
    await bed.close();
    await removePodCgroups();
  }
} else if (options.stats) {
  const bed = await TestBed.open();
  try {
    const report = await benchStats(options, bed);
    process.stdout.write(options.json ? `${JSON.stringify(report, null, 2)}\n` : formatReport(report));
  } finally {
    await bed.close();
    await removePodCgroups();
  }
} else {
  const bed = await TestBed.open();
  try {
    if (options.play) {
      const report = await benchPlay(bed, options.starts);
      process.stdout.write(options.json ? `${JSON.stringify(report, null, 2)}\n` : formatPlay(report));
    } else if (options.logs !== undefined) {
      const costs = await benchLogs(bed, options.logs, options.profile);
      process.stdout.write(options.json ? `${JSON.stringify(costs, null, 2)}\n` : formatLogs(costs));
    } else if (options.others.length > 0 && !options.streaming) {
      const report = await benchServers(options, bed);
      process.stdout.write(options.json ? `${JSON.stringify(report, null, 2)}\n` : formatServers(report));
    } else {
      const report = options.streaming ? await benchSessions(options, bed) : await bench(options, bed);
      process.stdout.write(options.json ? `${JSON.stringify(report, null, 2)}\n` : formatReport(report));
    }
  } finally {
    await bed.close();
  }
}

async function bench({ pods, starts, reads, flags, profile }: BenchOptions, bed: TestBed): Promise<Report> {
  const say = (line: string): void => {
    process.stderr.write(`bench: ${line}\n`);
  };
  const before = loadNow();
  const proxy = await bed.startProxy();
  const counted = await bed.startShim({ dockerEndpoint: proxy.endpoint, flags });
  const bodies = await recordBodies(bed, proxy, counted.cri);
  // While starts are timed, only one shim follows the engine's events.
  await counted.stop();

  const startShim = async (): Promise<ShimProcess> =>
    bed.startShim({
      flags,
      nodeFlags: profile === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${profile}`],
    });
  let shim = await startShim();
  say(`pod starts, ${String(starts)} rounds`);
  const podStarts = await comparePodStarts(bed, shim.cri, bodies, starts);
  say(`container starts, ${String(starts)} rounds`);
  const containerStarts = await compareContainerStarts(bed, shim.cri, bodies, starts);
  if (profile !== undefined) {
    await shim.stop();
    shim = await startShim();
  }

  say(`making ${String(pods)} pods`);
  const made: { pod: Pod; containerId: string }[] = [];
  await inParallel(pods, creationWidth, async () => {
    const pod = await bed.runPod(shim.cri);
    made.push({ pod, containerId: await pod.start({ command: ["sleep", "100000"] }) });
  });
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
  say("removing the pods");
  await inParallel(made.length, creationWidth, async (index) => made[index]?.pod[Symbol.asyncDispose]());
  await shim.stop();

  return {
    machine: await machine(),
    load: [before, after],
    pods,
    comparisons: [podStarts, containerStarts, ...readings],
  };
}

async function benchSessions({ others, mebibytes, flags }: BenchOptions, bed: TestBed): Promise<Report> {
  const before = loadNow();
  const shim = await bed.startShim({ flags });
  const comparisons = await compareStreaming(bed, mebibytes * 1024 * 1024, [
    { name: "dockershim", cri: shim.cri },
    ...others.map((socket) => ({ name: socket, cri: connectCri(socket) })),
  ]);
  return { machine: await machine(), load: [before, loadNow()], pods: 1, comparisons };
}
