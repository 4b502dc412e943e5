/** How soon a server that was killed serves again, and has written what containers said meanwhile into their logs. */
import { closeSync, openSync, readFileSync, statSync, writeSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { accepts } from "../scripts/setup/relay.mjs";
import { dockerJson } from "../test/support/docker.js";
import { ShimProcess, type ShimOptions } from "../test/support/shim-process.js";
import type { TestBed } from "../test/support/test-bed.js";
import { removeBenchPods, startBenchPods, type BenchPod } from "./bench-pods.js";
import { profiling, say } from "./measure.js";
import { summaryOf } from "./ratios.js";
import { coreCount, loadLine, loadNow } from "./report.js";
import { cpuSecondsOf } from "./process-usage.js";

export interface KillsOptions {
  readonly kills: number;
  readonly pods: number;
  /** Commands in place of the tests' own program, words divided by blanks. */
  readonly programs: readonly string[];
  readonly flags: readonly string[];
  /** Directory for CPU profiles. Their making is part of the times. */
  readonly profile: string | undefined;
}

export type KillsReport = Awaited<ReturnType<typeof benchKills>>;

/** A container whose output the bench writes. */
interface Writer {
  /** The end of the pipe that containerd-shim reads. */
  readonly descriptor: number;
  readonly logPath: string;
}

const pollMs = 1;
const limitMs = 60_000;
/** Between two kills: clean-ups after the start have ended, and positions of logs are stored. */
const settleMs = 3_000;

export async function benchKills({ kills, pods, programs, flags, profile }: KillsOptions, bed: TestBed) {
  const before = loadNow();
  const commands = programs.length === 0 ? [undefined] : programs.map((command) => command.split(" "));
  const directory = await bed.newDirectory();
  const optionsOf = (program: readonly string[] | undefined): ShimOptions => ({
    ...{ directory, flags, nodeFlags: profiling(profile) },
    ...(program && { program }),
  });
  let shim = await bed.startShim(optionsOf(commands[0]));
  const made = await startBenchPods(bed, shim.cri, pods);
  const writers = await Promise.all(made.map(writerOf));
  const samples = commands.map((program) => ({ program, values: [] as Sample[] }));
  for (let round = -1; round < kills; round += 1) {
    for (const { program, values } of round % 2 === 0 ? samples : samples.toReversed()) {
      await sleep(settleMs);
      say(`kill ${String(round + 1)}: ${program?.join(" ") ?? "the program"}`);
      const killedAtMs = performance.now();
      await shim.kill();
      shim = bed.own(ShimProcess.spawn(optionsOf(program)));
      const sample = await sampleOf(shim, made, writers, killedAtMs);
      // The first one reads its files from the disk.
      if (round >= 0) values.push(sample);
    }
  }
  for (const { descriptor } of writers) closeSync(descriptor);
  await removeBenchPods(made, shim.cri);
  await shim.stop();
  return {
    ...{ cores: coreCount(), load: [before, loadNow()], kills, pods },
    programs: samples.map(({ program, values }) => {
      const of = (key: keyof Sample) => summaryOf(values.map((value) => value[key]));
      return {
        program: program?.join(" ") ?? `Node.js ${process.versions.node}`,
        ...{ answered: of("answered"), listed: of("listed"), logged: of("logged"), cpu: of("cpu") },
      };
    }),
  };
}

/** Milliseconds since the kill; of CPU since the start. */
interface Sample {
  readonly answered: number;
  readonly listed: number;
  readonly logged: number;
  readonly cpu: number;
}

const columns = [
  { key: "answered", title: "the first call (Version) is answered, ms" },
  { key: "listed", title: "all pods are listed, ms" },
  { key: "logged", title: "what containers wrote meanwhile is in their logs, ms" },
  { key: "cpu", title: "CPU of the new process until all of that, ms" },
] as const satisfies readonly { readonly key: keyof Sample; readonly title: string }[];

async function writerOf({ pod, containerId }: BenchPod): Promise<Writer> {
  const { State } = (await dockerJson("GET", `/containers/${containerId}/json`)) as {
    State: { Pid: number };
  };
  return {
    descriptor: openSync(`/proc/${String(State.Pid)}/fd/1`, "w"),
    logPath: join(pod.config.log_directory ?? "", "main.log"),
  };
}

async function sampleOf(
  shim: ShimProcess,
  made: readonly BenchPod[],
  writers: readonly Writer[],
  killedAtMs: number,
): Promise<Sample> {
  const line = `written while no server ran, ${String(killedAtMs)}`;
  const sizes = writers.map(({ logPath }) => statSync(logPath).size);
  for (const { descriptor } of writers) writeSync(descriptor, `${line}\n`);
  const since = (): number => performance.now() - killedAtMs;
  const calls = async () => {
    while (!(await accepts({ path: shim.socket }))) await pause(since);
    await shim.cri.Version({});
    const answered = since();
    for (;;) {
      const { items } = await shim.cri.ListPodSandbox({});
      if (items.length >= made.length) return { answered, listed: since() };
      await pause(since);
    }
  };
  const logs = async () => {
    while (writers.some(({ logPath }, index) => statSync(logPath).size === sizes[index])) await pause(since);
    return since();
  };
  const [{ answered, listed }, logged] = await Promise.all([calls(), logs()]);
  const cpu = 1000 * cpuSecondsOf(shim.pid);
  for (const { logPath } of writers)
    if (!readFileSync(logPath, "utf8").trimEnd().endsWith(line))
      throw new Error(`${logPath} has another end`);
  return { answered, listed, logged, cpu };
}

async function pause(since: () => number): Promise<void> {
  if (since() > limitMs) throw new Error(`the server does not serve after ${String(limitMs)} ms`);
  await sleep(pollMs);
}

export function formatKills({ cores, load, kills, pods, programs }: KillsReport): string {
  return [
    loadLine(cores, load),
    `${String(pods)} pods with a container, ${String(kills)} kills; medians (95th percentiles), mean of CPU`,
    "",
    `| since the kill | ${programs.map(({ program }) => program).join(" | ")} |`,
    `| --- |${" --- |".repeat(programs.length)}`,
    ...columns.map(({ key, title }) => {
      const cells = programs.map((one) => {
        const { median, p95, mean } = one[key];
        return key === "cpu" ? mean.toFixed(0) : `${median.toFixed(0)} (${p95.toFixed(0)})`;
      });
      return `| ${title} | ${cells.join(" | ")} |`;
    }),
    "",
  ].join("\n");
}
