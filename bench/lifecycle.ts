/** The calls of a pod's life one by one, bursts of pods, and execs. */
import { once } from "node:events";
import { mkdir } from "node:fs/promises";
import type { Answer, PodSandboxConfig } from "../src/domain/cri.js";
import type { TestBed } from "../test/support/test-bed.js";
import type { Measured, Sample, Server, Stage, Usage } from "./blocks.js";
import { inParallel } from "./measure.js";
import { rowOf, type Row } from "./ratios.js";
import { execByWebSocket, openExec } from "./streaming-client.js";

const startCalls = ["RunPodSandbox", "CreateContainer", "StartContainer"];
const stopCalls = ["StopContainer", "RemoveContainer", "StopPodSandbox", "RemovePodSandbox"];
/** As kubelets give it for pods without a period of their own, in seconds. */
const stopTimeout = "30";
const burst = { pods: 20, width: 10 };
const execs = { perBlock: 20, atOnce: 100 };

/** A pod with one container that runs. */
export interface RunningPod {
  readonly sandboxId: string;
  readonly containerId: string;
  readonly config: Answer<PodSandboxConfig>;
}

type Timed = <T>(title: string, call: () => Promise<T>) => Promise<T>;
const untimed: Timed = (_title, call) => call();

export async function startPod(bed: TestBed, { cri }: Server, timed = untimed): Promise<RunningPod> {
  const config = bed.podConfig();
  await makeLogDirectory(config);
  const { pod_sandbox_id: sandboxId } = await timed("RunPodSandbox", () => cri.RunPodSandbox({ config }));
  const containerId = await startContainer(bed, { cri }, { sandboxId, config }, "main", timed);
  return { sandboxId, containerId, config };
}

/** Answers its id. */
export async function startContainer(
  bed: TestBed,
  { cri }: Pick<Server, "cri">,
  { sandboxId: pod_sandbox_id, config: sandbox_config }: Omit<RunningPod, "containerId">,
  name: string,
  timed = untimed,
): Promise<string> {
  const config = bed.containerConfig({ metadata: { name } });
  const { container_id } = await timed("CreateContainer", () =>
    cri.CreateContainer({ pod_sandbox_id, config, sandbox_config }),
  );
  await timed("StartContainer", () => cri.StartContainer({ container_id }));
  return container_id;
}

/** Kubelets make it before they start a pod, and some servers need it. */
async function makeLogDirectory({ log_directory: directory = "" }: Answer<PodSandboxConfig>): Promise<void> {
  await mkdir(directory, { recursive: true });
}

export async function stopPod({ cri }: Server, pod: RunningPod, timed = untimed): Promise<void> {
  const { sandboxId: pod_sandbox_id, containerId: container_id } = pod;
  await timed("StopContainer", () => cri.StopContainer({ container_id, timeout: stopTimeout }));
  await timed("RemoveContainer", () => cri.RemoveContainer({ container_id }));
  await timed("StopPodSandbox", () => cri.StopPodSandbox({ pod_sandbox_id }));
  await timed("RemovePodSandbox", () => cri.RemovePodSandbox({ pod_sandbox_id }));
}

export async function compareCalls(bed: TestBed, stage: Stage, rounds: number): Promise<readonly Row[]> {
  const measured = await stage.inBlocks({ rounds, blockRounds: 5, warmUpRounds: [10, 2] }, async (server) => {
    const sample: Record<string, number> = {};
    const timed: Timed = async (title, call) => {
      const startMs = performance.now();
      const answer = await call();
      sample[title] = performance.now() - startMs;
      return answer;
    };
    await stopPod(server, await startPod(bed, server, timed), timed);
    const sumOf = (titles: readonly string[]): number =>
      titles.reduce((sum, title) => sum + (sample[title] ?? NaN), 0);
    return { ...sample, "pod start": sumOf(startCalls), "pod stop": sumOf(stopCalls) };
  });
  const titles = [...startCalls, "pod start", ...stopCalls, "pod stop"];
  return [
    ...titles.map((title) => rowOf({ title, unit: "ms" }, valuesOf(measured, title))),
    ...cpuRows(measured, { unit: "ms", factor: 1000, title: "a pod's life" }),
  ];
}

export async function compareBursts(bed: TestBed, stage: Stage, bursts: number): Promise<readonly Row[]> {
  const measured = await stage.inBlocks(
    { rounds: bursts, blockRounds: 1, warmUpRounds: [1, 0] },
    async (server) => {
      const pods: RunningPod[] = [];
      const start = await stage.usageOf(server, () =>
        inParallel(burst.pods, burst.width, async () => {
          pods.push(await startPod(bed, server));
        }),
      );
      const removal = await stage.usageOf(server, () =>
        inParallel(burst.pods, burst.width, async (index) => {
          const pod = pods[index];
          if (pod !== undefined) await stopPod(server, pod);
        }),
      );
      return { ...named("started", start), ...named("removed", removal) };
    },
  );
  return ["started", "removed"].flatMap((change) => burstRows(measured, change));
}

const noUsage: Usage = { wallSeconds: NaN, serverSeconds: NaN, engineSeconds: NaN };

/** Of the wall time first, with medians, then of CPU times, with means. */
export function burstRows(measured: readonly Measured[], change: string): readonly Row[] {
  return Object.keys(named(change, noUsage)).map((title, index) =>
    rowOf({ title, unit: "s", center: index === 0 ? "median" : "mean" }, valuesOf(measured, title)),
  );
}

function named(change: string, { wallSeconds, serverSeconds, engineSeconds }: Usage): Sample {
  const what = `${String(burst.pods)} pods ${change}`;
  return {
    [`${what}, ${String(burst.width)} at a time`]: wallSeconds,
    [`${what}, CPU of the server`]: serverSeconds,
    [`${what}, CPU of the engine`]: engineSeconds,
  };
}

/** `pods`: one of each server's own. */
export async function compareExecs(
  stage: Stage,
  pods: ReadonlyMap<Server, RunningPod>,
  { starts, bursts }: { readonly starts: number; readonly bursts: number },
): Promise<readonly Row[]> {
  const containerOf = (server: Server): string => pods.get(server)?.containerId ?? "";
  const exec = async (server: Server): Promise<void> => {
    const container_id = containerOf(server);
    const { exit_code } = await server.cri.ExecSync({ container_id, cmd: ["true"], timeout: "30" });
    if (exit_code !== 0) throw new Error(`ExecSync of ${server.name}: exit code ${String(exit_code)}`);
  };
  const ways: Readonly<Record<string, (server: Server) => Promise<unknown>>> = {
    "ExecSync of true": exec,
    "exec of true by SPDY": async (server) => {
      const { socket } = await openExec(server.cri, containerOf(server), ["true"], "out");
      await once(socket.resume(), "close");
    },
    "exec of true by WebSocket": async (server) =>
      (await execByWebSocket(server.cri, containerOf(server), ["true"])).closed,
  };
  const rounds = Math.ceil((4 * starts) / execs.perBlock) * execs.perBlock;
  const rows: Row[] = [];
  for (const [title, run] of Object.entries(ways)) {
    const single = await stage.inBlocks(
      { rounds, blockRounds: execs.perBlock, warmUpRounds: [20, 2] },
      async (server) => {
        const startMs = performance.now();
        await run(server);
        return { [title]: performance.now() - startMs };
      },
    );
    rows.push(rowOf({ title, unit: "ms" }, valuesOf(single, title)));
    rows.push(...cpuRows(single, { unit: "ms", factor: 1000, title }));
  }
  const together = `${String(execs.atOnce)} ExecSync at once`;
  const many = await stage.inBlocks(
    { rounds: bursts, blockRounds: 1, warmUpRounds: [1, 0] },
    async (server) => {
      const startMs = performance.now();
      await inParallel(execs.atOnce, execs.atOnce, () => exec(server));
      return { [together]: (performance.now() - startMs) / 1000 };
    },
  );
  return [
    ...rows,
    rowOf({ title: together, unit: "s" }, valuesOf(many, together)),
    ...cpuRows(many, { unit: "s", factor: 1, title: together }),
  ];
}

/** Round by round, for `rowOf`. */
export function valuesOf(
  measured: readonly Measured[],
  title: string,
): readonly { readonly server: string; readonly values: readonly number[] }[] {
  return measured.map(({ server, samples }) => ({
    server,
    values: samples.map((sample) => sample[title] ?? NaN),
  }));
}

/** CPU times per round, block by block. */
export function cpuRows(
  measured: readonly Measured[],
  { title, unit, factor }: { readonly title: string; readonly unit: "ms" | "s"; readonly factor: number },
): readonly [server: Row, engine: Row] {
  const row = (whose: string, secondsOf: (usage: Usage) => number): Row =>
    rowOf(
      { title: `${title}, CPU of the ${whose}`, unit, center: "mean" },
      measured.map(({ server, usages }) => ({
        server,
        values: usages.map((usage) => secondsOf(usage) * factor),
      })),
    );
  return [
    row("server", ({ serverSeconds }) => serverSeconds),
    row("engine", ({ engineSeconds }) => engineSeconds),
  ];
}
