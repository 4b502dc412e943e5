/**
 * What log files cost: the engine's work and the shim's for the same output, against nobody reading and against
 * `docker logs -f` into a file, in the same run.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { createWriteStream } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { join } from "node:path";
import {
  createContainer,
  dockerEndpoint,
  dockerJson,
  dockerSocket,
  removeContainer,
  startContainer,
} from "../test/support/docker.js";
import type { TestBed } from "../test/support/test-bed.js";
import { inParallel, profiling } from "./measure.js";
import type { BenchOptions } from "./options.js";
import { cpuSecondsOf } from "./process-usage.js";
import { medianOf } from "./ratios.js";
import { engineProcesses } from "./server-processes.js";

interface FloodResult {
  readonly load: string;
  readonly reader: "nobody" | "dockershim" | "docker logs -f";
  /** Of the container's output, while it ran. */
  readonly megabytesPerSecond: number;
  /** CPU seconds per gigabyte of output. */
  readonly engineCpu: number;
  readonly readerCpu: number;
}

interface SteadyResult {
  readonly load: string;
  /** Of one core. */
  readonly shimShare: number;
  readonly engineShare: number;
}

interface LogReport {
  readonly floods: readonly FloodResult[];
  readonly steady: readonly SteadyResult[];
}

const steadyMs = 20_000;

const loads: readonly { readonly name: string; readonly script: (bytes: number) => string }[] = [
  { name: "lines of 100 B", script: (bytes) => flood(100, bytes, "") },
  { name: "lines of 64 KiB", script: (bytes) => flood(65_536, bytes, "") },
  {
    name: "100 B, both streams",
    script: (bytes) => `{ ${flood(100, bytes / 2, "")}; } & { ${flood(100, bytes / 2, ">&2")}; }; wait`,
  },
];

/** `bytes` of lines of `lineBytes`, newline included. */
function flood(lineBytes: number, bytes: number, where: string): string {
  const line = `$(head -c ${String(lineBytes - 1)} /dev/zero | tr '\\0' x)`;
  return `yes "${line}" | head -c ${String(Math.floor(bytes / lineBytes) * lineBytes)} ${where}`;
}

export async function benchLogs(
  bed: TestBed,
  options: NonNullable<BenchOptions["logs"]>,
  profile?: string,
): Promise<LogReport> {
  const [engine] = engineProcesses(dockerSocket);
  if (engine === undefined) throw new Error("no dockerd in reach: it must run on this host");
  const shim = await bed.startShim({ nodeFlags: profiling(profile) });
  const pod = await bed.runPod(shim.cri);
  const bytes = options.megabytes * 1_000_000;
  const floods: FloodResult[] = [];
  const readers = ["nobody", "dockershim", "docker logs -f"] as const;
  for (const { name, script } of loads) {
    const command = ["sh", "-c", `sleep 1; ${script(bytes)}`];
    const results = new Map<string, FloodResult[]>();
    for (let round = 0; round < options.rounds; round += 1) {
      for (let turn = 0; turn < readers.length; turn += 1) {
        const reader = readers[(turn + round) % readers.length] ?? "nobody";
        const result = await floodOnce(reader, command);
        results.set(reader, [...(results.get(reader) ?? []), { load: name, ...result }]);
        process.stderr.write(`bench: ${name}, ${reader}: ${JSON.stringify(result)}\n`);
      }
    }
    for (const reader of readers) floods.push(median(results.get(reader) ?? []));
  }

  async function floodOnce(
    reader: FloodResult["reader"],
    command: readonly string[],
  ): Promise<Omit<FloodResult, "load">> {
    const isOurs = reader === "dockershim";
    const metadata = { name: bed.newName("c") };
    const id = isOurs
      ? await pod.create({ metadata, command: [...command], log_path: `${metadata.name}/0.log` })
      : await createContainer(bed.newName("raw"), {
          Image: bed.image,
          Entrypoint: command,
          HostConfig: { NetworkMode: "none", LogConfig: { Type: "json-file", Config: {} } },
        });
    bed.onClose(() => removeContainer(id).catch(() => undefined));
    if (isOurs) await shim.cri.StartContainer({ container_id: id });
    else await startContainer(id);
    const follower =
      reader === "docker logs -f" ? await follow(id, join(bed.directory, "follow")) : undefined;
    const readerPid = isOurs ? shim.pid : follower?.pid;
    const before = { engine: cpuSecondsOf(engine), reader: cpuSecondsOf(readerPid) };
    let readerCpu = 0;
    let state = await stateOf(id);
    while (state.Running) {
      await sleep(100);
      if (follower?.exitCode === null) readerCpu = cpuSecondsOf(readerPid) - before.reader;
      state = await stateOf(id);
    }
    if (isOurs) {
      await pod.untilExited(id);
      readerCpu = cpuSecondsOf(readerPid) - before.reader;
    }
    if (follower !== undefined) await ended(follower);
    const engineCpu = cpuSecondsOf(engine) - before.engine;
    await removeContainer(id);
    const seconds = (Date.parse(state.FinishedAt) - Date.parse(state.StartedAt)) / 1000 - 1;
    const perGigabyte = 1e9 / bytes;
    return {
      reader,
      megabytesPerSecond: bytes / 1e6 / seconds,
      engineCpu: engineCpu * perGigabyte,
      readerCpu: readerCpu * perGigabyte,
    };
  }

  const steady: SteadyResult[] = [];
  const hold = async (load: string, count: number, command: readonly string[]): Promise<void> => {
    const ids: string[] = [];
    await inParallel(count, 6, async () => {
      const name = bed.newName("c");
      ids.push(await pod.start({ metadata: { name }, command: [...command], log_path: `${name}/0.log` }));
    });
    await sleep(5_000);
    const before = { engine: cpuSecondsOf(engine), shim: cpuSecondsOf(shim.pid), ms: performance.now() };
    await sleep(steadyMs);
    const seconds = (performance.now() - before.ms) / 1000;
    steady.push({
      load: `${String(count)} ${load}`,
      shimShare: (cpuSecondsOf(shim.pid) - before.shim) / seconds,
      engineShare: (cpuSecondsOf(engine) - before.engine) / seconds,
    });
    await inParallel(count, 6, async (index) => {
      await shim.cri.RemoveContainer({ container_id: ids[index] ?? "" });
    });
  };
  await hold("containers", 0, []);
  await hold("idle containers", options.idle, ["sleep", "100000"]);
  await hold("containers, a line of 100 B each second", options.trickles, [
    "sh",
    "-c",
    `line=$(head -c 99 /dev/zero | tr '\\0' x); while :; do echo $line; sleep 1; done`,
  ]);
  await pod.stop();
  await pod.remove();
  await shim.stop();
  return { floods, steady };
}

export function formatLogs({ floods, steady }: LogReport): string {
  const rows = floods.map(({ load, reader, megabytesPerSecond, engineCpu, readerCpu }) => {
    const alone = floods.find((one) => one.load === load && one.reader === "nobody");
    const added = engineCpu - (alone?.engineCpu ?? 0) + readerCpu;
    return [
      load,
      reader,
      megabytesPerSecond.toFixed(1),
      engineCpu.toFixed(1),
      readerCpu.toFixed(1),
      reader === "nobody" ? "" : added.toFixed(1),
    ].join(" | ");
  });
  return [
    "| output | reader | MB/s | engine CPU s/GB | reader CPU s/GB | added by the reader s/GB |",
    "| --- | --- | --- | --- | --- | --- |",
    ...rows.map((row) => `| ${row} |`),
    "",
    "| load | shim, of a core | engine, of a core |",
    "| --- | --- | --- |",
    ...steady.map(
      ({ load, shimShare, engineShare }) =>
        `| ${load} | ${(shimShare * 100).toFixed(2)} % | ${(engineShare * 100).toFixed(2)} % |`,
    ),
    "",
  ].join("\n");
}

function median(results: readonly FloodResult[]): FloodResult {
  const middle = (of: "megabytesPerSecond" | "engineCpu" | "readerCpu"): number =>
    medianOf(results.map((one) => one[of]));
  const [first] = results;
  if (first === undefined) throw new Error("no round was run");
  const rates = { megabytesPerSecond: middle("megabytesPerSecond"), engineCpu: middle("engineCpu") };
  return { ...first, ...rates, readerCpu: middle("readerCpu") };
}

interface State {
  readonly Running: boolean;
  readonly StartedAt: string;
  readonly FinishedAt: string;
}

async function stateOf(id: string): Promise<State> {
  return ((await dockerJson("GET", `/containers/${id}/json`)) as { State: State }).State;
}

async function follow(id: string, path: string): Promise<ChildProcess> {
  const file = createWriteStream(path);
  await new Promise((resolve) => file.once("open", resolve));
  return spawn("docker", ["-H", dockerEndpoint, "logs", "-f", id], { stdio: ["ignore", file, file] });
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode === null) await new Promise((resolve) => child.once("exit", resolve));
}
