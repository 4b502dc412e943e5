/** A node with as many pods as people try: each server fills it by itself, is read, restarted, and empties it. */
import { setTimeout as sleep } from "node:timers/promises";
import { spawnSync } from "node:child_process";
import { connectCri } from "../test/support/cri-client.js";
import { dockerSocket } from "../test/support/docker.js";
import type { TestBed } from "../test/support/test-bed.js";
import type { Server, Usage } from "./blocks.js";
import { connectBytes } from "./cri-bytes.js";
import { callAsKubelet } from "./kubelet-calls.js";
import { startContainer, startPod, stopPod, type RunningPod } from "./lifecycle.js";
import { inParallel, say } from "./measure.js";
import type { BenchOptions } from "./options.js";
import { cpuSecondsOf, descriptorsOf, residentMebibytesOf } from "./process-usage.js";
import { medianOf } from "./ratios.js";
import { loadLine, loadNow, machine } from "./report.js";
import { cpuSecondsOfTrees, engineProcesses, listenerOf } from "./server-processes.js";

type FullNodeOptions = Pick<BenchOptions, "flags" | "others" | "restartEngine"> & {
  readonly fullNode: number;
};

/** Figures of a server by their titles; NaN: the server does not answer. */
type Column = Readonly<Record<string, number>>;

export type FullNodeReport = Awaited<ReturnType<typeof benchFullNode>>;

/** At the same time, as a kubelet that starts has it. */
const width = 10;
/** Shares of the pods at which the server is read, so that growth beyond the number of pods shows. */
const shares = [0.1, 0.5, 1];
const settleMs = 15_000;
const idleSeconds = 30;
const pollMs = 50;
const readyTimeoutMs = 300_000;
const reads = [
  { rpc: "ListPodSandbox", times: 20 },
  { rpc: "ListContainers", times: 20 },
  { rpc: "ListContainerStats", times: 7 },
  { rpc: "ListPodSandboxStats", times: 7 },
  { rpc: "ListPodSandboxMetrics", times: 5 },
] as const;

export async function benchFullNode(options: FullNodeOptions, bed: TestBed) {
  const { fullNode: pods, others, flags } = options;
  const before = loadNow();
  const servers: { readonly server: string; readonly columns: readonly Column[]; readonly whole: Column }[] =
    [];
  servers.push(await fillOwn(bed, options));
  for (const socket of others) {
    const cri = connectCri(socket);
    const other: Server = {
      ...{ name: socket, socket, cri, pid: listenerOf(socket), mayBeSuspended: false },
    };
    const { columns, whole, made } = await fill(bed, other, pods);
    servers.push({
      server: socket,
      columns,
      whole: { ...whole, ...(await afterEngineRestart(other, options)), ...(await empty(other, made)) },
    });
    cri[Symbol.dispose]();
  }
  return { machine: await machine(), load: [before, loadNow()], pods, flags, servers };
}

/** The bench may kill its own server. */
async function fillOwn(bed: TestBed, options: FullNodeOptions) {
  const { flags, fullNode: pods } = options;
  const directory = await bed.newDirectory();
  const shim = await bed.startShim({ directory, flags });
  const own = (one: typeof shim): Server => ({
    ...{ name: "dockershim", socket: one.socket, cri: one.cri, pid: one.pid, mayBeSuspended: false },
  });
  const { columns, whole, made } = await fill(bed, own(shim), pods);
  say("the server is killed and starts again");
  await shim.kill();
  const startMs = performance.now();
  const again = await bed.startShim({ directory, flags });
  const server = own(again);
  await untilListed(server, pods);
  const restart = { "killed, until all pods are listed again, s": secondsSince(startMs) };
  const engine = await afterEngineRestart(server, options);
  const rest = await empty(server, made);
  await again.stop();
  return { server: "dockershim", columns, whole: { ...whole, ...restart, ...engine, ...rest } };
}

async function fill(bed: TestBed, server: Server, pods: number) {
  const made: RunningPod[] = [];
  const columns: Column[] = [];
  let whole: Column = {};
  for (const share of shares) {
    const wanted = Math.ceil(pods * share);
    const count = wanted - made.length;
    say(`${server.name}: ${String(wanted)} pods`);
    const usage = await usageOf(server, () =>
      inParallel(count, width, async () => {
        const pod = await startPod(bed, server);
        await startContainer(bed, server, pod, "second");
        made.push(pod);
      }),
    );
    await sleep(settleMs);
    columns.push({ pods: wanted, ...perPod("started", usage, count), ...(await readingsOf(server)) });
    whole = { "all pods started, s": (whole["all pods started, s"] ?? 0) + usage.wallSeconds };
  }
  return { columns, whole, made };
}

async function readingsOf(server: Server): Promise<Column> {
  const { pid } = server;
  using client = connectBytes(server.socket);
  const column: Record<string, number> = {};
  for (const { rpc, times } of reads) {
    const values: number[] = [];
    let bytes = 0;
    try {
      for (let time = 0; time < times; time += 1) {
        const startMs = performance.now();
        bytes = (await client.call("RuntimeService", rpc)).length;
        values.push(performance.now() - startMs);
      }
    } catch (error) {
      say(`${server.name} does not answer ${rpc}: ${String(error)}`);
    }
    column[`${rpc}, ms`] = values.length === times ? medianOf(values) : NaN;
    column[`${rpc}, KiB`] = values.length === times ? bytes / 1024 : NaN;
  }
  const end = new AbortController();
  const statistics = "ListContainerStats";
  const calling = callAsKubelet(server.socket, { metrics: false, statistics }, end.signal);
  calling.catch(() => undefined);
  const usage = await usageOf(server, async () => {
    await Promise.race([sleep(idleSeconds * 1000), calling]);
  });
  end.abort();
  await calling;
  column["CPU while nothing changes, % of a core"] = (100 * usage.serverSeconds) / usage.wallSeconds;
  column["the same of the engine, % of a core"] = (100 * usage.engineSeconds) / usage.wallSeconds;
  if (pid !== undefined) {
    column["resident memory, MiB"] = residentMebibytesOf(pid);
    column["open files"] = descriptorsOf(pid);
  }
  return column;
}

async function afterEngineRestart(server: Server, options: FullNodeOptions): Promise<Column> {
  const { restartEngine, fullNode: pods } = options;
  if (restartEngine === undefined) return {};
  say("the engine restarts");
  const { status } = spawnSync("sh", ["-c", restartEngine], { stdio: "inherit" });
  if (status !== 0) throw new Error(`${restartEngine}: exit status ${String(status)}`);
  const startMs = performance.now();
  await untilListed(server, pods);
  return { "engine serves again, until all pods are listed, s": secondsSince(startMs) };
}

async function empty(server: Server, made: readonly RunningPod[]): Promise<Column> {
  say(`${server.name}: removing the pods`);
  const usage = await usageOf(server, () =>
    inParallel(made.length, width, async (index) => {
      const pod = made[index];
      if (pod !== undefined) await stopPod(server, pod);
    }),
  );
  return { "all pods removed, s": usage.wallSeconds, ...perPod("removed", usage, made.length) };
}

/** Plugins and other programs that a server runs grow with the node in their own way. */
interface NodeUsage extends Usage {
  /** Of the server's process alone. */
  readonly ownSeconds: number;
}

async function usageOf({ pid }: Server, work: () => Promise<void>): Promise<NodeUsage> {
  const engine = engineProcesses(dockerSocket);
  const seconds = () => ({
    serverSeconds: cpuSecondsOfTrees(pid === undefined ? [] : [pid]),
    ownSeconds: pid === undefined ? NaN : cpuSecondsOf(pid),
    engineSeconds: cpuSecondsOfTrees(engine),
  });
  const before = seconds();
  const startMs = performance.now();
  await work();
  const wallSeconds = secondsSince(startMs);
  const after = seconds();
  return {
    wallSeconds,
    serverSeconds: after.serverSeconds - before.serverSeconds,
    ownSeconds: after.ownSeconds - before.ownSeconds,
    engineSeconds: after.engineSeconds - before.engineSeconds,
  };
}

function perPod(change: string, usage: NodeUsage, pods: number) {
  const { wallSeconds, serverSeconds, ownSeconds, engineSeconds } = usage;
  return {
    [`a pod ${change}, ms`]: (1000 * wallSeconds) / pods,
    [`a pod ${change}, CPU of the server with its plugins, ms`]: (1000 * serverSeconds) / pods,
    [`a pod ${change}, CPU of the server alone, ms`]: (1000 * ownSeconds) / pods,
    [`a pod ${change}, CPU of the engine, ms`]: (1000 * engineSeconds) / pods,
  };
}

/** Until a list has at least that many ready sandboxes, and every pod's two containers. */
async function untilListed({ cri }: Server, pods: number): Promise<void> {
  const deadlineMs = performance.now() + readyTimeoutMs;
  for (;;) {
    try {
      const { items } = await cri.ListPodSandbox({});
      const { containers } = await cri.ListContainers({});
      const ready = items.filter(({ state }) => state === 0);
      const running = containers.filter(({ state }) => state === 1);
      if (ready.length >= pods && running.length >= 2 * pods) return;
    } catch (error) {
      if (performance.now() > deadlineMs) throw error;
    }
    if (performance.now() > deadlineMs) throw new Error(`${String(pods)} pods are not listed`);
    await sleep(pollMs);
  }
}

function secondsSince(startMs: number): number {
  return (performance.now() - startMs) / 1000;
}

export function formatFullNode({ machine, load, pods, flags, servers }: FullNodeReport): string {
  const sizes = servers[0]?.columns.map((column) => column["pods"] ?? NaN) ?? [];
  const titles = [...new Set(servers.flatMap(({ columns }) => columns.flatMap(Object.keys)))];
  const wholeTitles = [...new Set(servers.flatMap(({ whole }) => Object.keys(whole)))];
  const names = servers.map(({ server }) => server);
  return [
    loadLine(machine.cores, load),
    `Node.js ${machine.node}, Docker Engine ${machine.engine}, ${String(pods)} pods of two containers, ${String(width)} at a time`,
    ...flags.map((flag) => `  ${flag}`),
    "",
    `| | ${names.flatMap((name) => sizes.map((size) => `${name}, ${String(size)} pods`)).join(" | ")} |`,
    `| --- |${" --- |".repeat(names.length * sizes.length)}`,
    ...titles
      .filter((title) => title !== "pods")
      .map(
        (title) =>
          `| ${title} | ${servers.flatMap(({ columns }) => columns.map((column) => figure(column[title]))).join(" | ")} |`,
      ),
    "",
    `| | ${names.join(" | ")} |`,
    `| --- |${" --- |".repeat(names.length)}`,
    ...wholeTitles.map(
      (title) => `| ${title} | ${servers.map(({ whole }) => figure(whole[title])).join(" | ")} |`,
    ),
    "",
  ].join("\n");
}

function figure(value: number | undefined): string {
  if (value === undefined || Number.isNaN(value)) return "-";
  return value.toFixed(value >= 100 ? 0 : value >= 10 ? 1 : 2);
}
