/** The executable beside the built program on versions of Node.js: size, start, memory, and CPU of pod starts. */
import { spawn, execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdtemp } from "node:fs/promises";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { accepts } from "../scripts/setup/relay.mjs";
import type { ShimProcess } from "../test/support/shim-process.js";
import type { TestBed } from "../test/support/test-bed.js";
import { startPod, stopPod, type RunningPod } from "./lifecycle.js";
import { inParallel, say } from "./measure.js";
import { cpuSecondsOfTrees } from "./server-processes.js";
import { coreCount, loadLine, loadNow } from "./report.js";

export interface ProgramOptions {
  /** Commands, words divided by blanks. */
  readonly programs: readonly string[];
  readonly rounds: number;
  readonly flags: readonly string[];
}

export type ProgramsReport = Awaited<ReturnType<typeof benchPrograms>>;

/** Pods that stay while memory is measured: as many as a small node has. */
const stayingPods = 17;
const burst = { pods: 20, width: 10 };
const settleMs = 10_000;
const pollMs = 2;
const startTimeoutMs = 60_000;

export async function benchPrograms({ programs, rounds, flags }: ProgramOptions, bed: TestBed) {
  const before = loadNow();
  const measured = programs.map((command) => ({ command, ...noSamples() }));
  for (let round = 0; round < rounds; round += 1) {
    for (const one of round % 2 === 0 ? measured : measured.toReversed()) {
      const program = one.command.split(" ");
      say(`round ${String(round + 1)}: ${one.command}`);
      const start = await timeToSocket(bed, program);
      one.socketMs.push(start.wallMs);
      one.startCpu.push(start.cpuSeconds);
      one.versionCpu.push(cpuOfVersion(program));
      const shim = await bed.startShim({ program, flags });
      const server = {
        ...{ name: one.command, socket: shim.socket, cri: shim.cri, pid: shim.pid },
        mayBeSuspended: false,
      };
      const pods: RunningPod[] = [];
      const startPods = async (count: number): Promise<void> =>
        inParallel(count, burst.width, async () => {
          pods.push(await startPod(bed, server));
        });
      await startPods(stayingPods);
      await sleep(settleMs);
      one.memory.push(memoryOf(shim));
      const cpuBefore = cpuSecondsOfTrees([shim.pid]);
      await startPods(burst.pods);
      await sleep(settleMs / 5);
      one.burstCpu.push(cpuSecondsOfTrees([shim.pid]) - cpuBefore);
      await inParallel(pods.length, burst.width, async (index) => {
        const pod = pods[index];
        if (pod !== undefined) await stopPod(server, pod);
      });
      await shim.stop();
    }
  }
  return {
    ...{ cores: coreCount(), load: [before, loadNow()], rounds },
    programs: measured.map(({ command, memory, ...samples }) => ({
      command,
      /** Of the program, or of Node.js. */
      fileMebibytes: sizeOf(command.split(" ")[0] ?? "") / 2 ** 20,
      socketMs: middle(samples.socketMs),
      startCpuSeconds: middle(samples.startCpu),
      versionCpuSeconds: middle(samples.versionCpu),
      burstCpuSeconds: middle(samples.burstCpu),
      anonymousMebibytes: middle(memory.map(({ anonymous }) => anonymous)),
      residentMebibytes: middle(memory.map(({ resident }) => resident)),
      ownFileMebibytes: middle(memory.map(({ program }) => program)),
    })),
  };
}

function noSamples() {
  return {
    socketMs: [] as number[],
    startCpu: [] as number[],
    versionCpu: [] as number[],
    burstCpu: [] as number[],
    memory: [] as ReturnType<typeof memoryOf>[],
  };
}

/** From the start of the process until its socket takes a connection, without an engine. */
async function timeToSocket(bed: TestBed, [program = "", ...words]: readonly string[]) {
  const directory = await mkdtemp(join(bed.directory, "start-"));
  const socket = join(directory, "cri.sock");
  const flags = [
    ...["--network-plugin=no-op", "--cadvisor-socket=", `--container-runtime-endpoint=unix://${socket}`],
    ...[
      `--state-dir=${join(directory, "state")}`,
      `--docker-endpoint=unix://${join(directory, "none.sock")}`,
    ],
  ];
  const startMs = performance.now();
  const child = spawn(program, [...words, ...flags], { stdio: "ignore" });
  const exited = once(child, "exit");
  while (!(await accepts({ path: socket }))) {
    if (child.exitCode !== null) throw new Error(`${program} ended`);
    if (performance.now() - startMs > startTimeoutMs) {
      child.kill("SIGKILL");
      throw new Error(`${program} does not serve`);
    }
    await sleep(pollMs);
  }
  const wallMs = performance.now() - startMs;
  const cpuSeconds = cpuSecondsOfTrees([child.pid ?? 0]);
  child.kill("SIGTERM");
  await exited;
  return { wallMs, cpuSeconds };
}

/** The shell knows the CPU time of its children. */
function cpuOfVersion(program: readonly string[]): number {
  const script = '"$@" version >/dev/null; times';
  const [, children = ""] = execFileSync("bash", ["-c", script, "bash", ...program], {
    encoding: "utf8",
  }).split("\n");
  const seconds = [...children.matchAll(/(\d+)m([\d.]+)s/g)];
  return seconds.reduce((sum, [, minutes, rest]) => sum + Number(minutes) * 60 + Number(rest), 0);
}

/** MiB. `program`: pages of the file of the program, which processes share. */
function memoryOf({ pid }: ShimProcess) {
  const rollup = readFileSync(`/proc/${String(pid)}/smaps_rollup`, "latin1");
  const at = (name: string, text = rollup): number =>
    Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, "m").exec(text)?.[1] ?? NaN) / 1024;
  const executable = execFileSync("readlink", [`/proc/${String(pid)}/exe`], { encoding: "utf8" }).trim();
  const mappings = readFileSync(`/proc/${String(pid)}/smaps`, "latin1").split(/^(?=[\da-f]+-[\da-f]+ )/m);
  const own = mappings.filter((mapping) => mapping.split("\n", 1)[0]?.endsWith(executable));
  return {
    anonymous: at("Anonymous"),
    resident: at("Rss"),
    program: own.reduce((sum, mapping) => sum + at("Rss", mapping) - at("Anonymous", mapping), 0),
  };
}

function sizeOf(program: string): number {
  return statSync(execFileSync("sh", ["-c", 'command -v "$1"', "sh", program], { encoding: "utf8" }).trim())
    .size;
}

function middle(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN;
}

export function formatPrograms({ cores, load, rounds, programs }: ProgramsReport): string {
  const row = (title: string, digits: number, of: (one: (typeof programs)[number]) => number): string =>
    `| ${title} | ${programs.map((one) => of(one).toFixed(digits)).join(" | ")} |`;
  return [
    loadLine(cores, load),
    `${String(stayingPods)} pods; medians of ${String(rounds)} rounds`,
    "",
    `| | ${programs.map(({ command }) => command).join(" | ")} |`,
    `| --- |${" --- |".repeat(programs.length)}`,
    row("size of the program, or of Node.js, MiB", 0, (one) => one.fileMebibytes),
    row("time until the socket answers, s", 2, (one) => one.socketMs / 1000),
    row("CPU until then, s", 2, (one) => one.startCpuSeconds),
    row("CPU of `version`, s", 2, (one) => one.versionCpuSeconds),
    row(`CPU of ${String(burst.pods)} pod starts, s`, 2, (one) => one.burstCpuSeconds),
    row("anonymous memory, MiB", 1, (one) => one.anonymousMebibytes),
    row("resident memory, MiB", 1, (one) => one.residentMebibytes),
    row("of it pages of the program's file", 1, (one) => one.ownFileMebibytes),
    "",
  ].join("\n");
}
