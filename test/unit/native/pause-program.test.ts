import assert from "node:assert/strict";
import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import type { Readable, Writable } from "node:stream";
import { describe, test, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { parseStat, type ProcessStat } from "../../../src/lib/linux/process-stat.js";
import { until } from "../../support/wait.js";

const limitMs = 20_000;
/** Number of the system call that the program waits in, on the machine that runs it or its emulator. */
const rtSigtimedwait = process.arch === "x64" ? "128" : "137";
const hosts = {
  amd64: { node: "x64", emulator: "qemu-x86_64-static" },
  arm64: { node: "arm64", emulator: "qemu-aarch64-static" },
} as const;

/** The program as a command, behind an emulator where the machine is another; or why it cannot run here. */
function commandFor(architecture: keyof typeof hosts): string[] | string {
  if (process.platform !== "linux") return "not on Linux";
  const program = fileURLToPath(new URL(`../../../native/bin/pause-${architecture}`, import.meta.url));
  const { node, emulator } = hosts[architecture];
  if (process.arch === node) return [program];
  const found = spawnSync(emulator, ["--version"]).error === undefined;
  return found ? [emulator, program] : `not on ${architecture} and no ${emulator} in PATH`;
}

/** unshare's arguments for a new PID namespace; or why there can be none. */
function namespaceFlags(): string[] | string {
  const attempts = [
    ["--pid", "--fork"],
    ["--user", "--map-root-user", "--pid", "--fork"],
  ];
  const works = attempts.find((flags) => spawnSync("unshare", [...flags, "true"]).status === 0);
  return works ?? "no new PID namespace to be had (no root, or no unshare)";
}

/** The command in a PID namespace of its own, in which the words `before` start it; or why there is none. */
function asFirstProcess(
  command: readonly string[] | string,
  ...before: string[]
): readonly string[] | string {
  if (typeof command === "string") return command;
  const flags = namespaceFlags();
  return typeof flags === "string" ? flags : ["unshare", ...flags, ...before, ...command];
}

/**
 * A test of a command; skipped for the reason that stands in its place: which emulator is missing, for one.
 */
function testOf(
  name: string,
  command: readonly string[] | string,
  body: (t: TestContext, command: readonly string[]) => Promise<void>,
): void {
  test(name, async (t) => {
    if (typeof command === "string") t.skip(command);
    else await body(t, command);
  });
}

function statOf(pid: number): ProcessStat | undefined {
  try {
    return parseStat(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return undefined;
  }
}

function childrenOf(pid: number): number[] {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return pids.map(Number).filter((candidate) => statOf(candidate)?.parent === pid);
}

/** Whether `pid` waits for signals: only then do they test the program and not its start. */
function isWaiting(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/syscall`, "utf8").startsWith(`${rtSigtimedwait} `);
  } catch {
    return false;
  }
}

function pidOf(process: ChildProcess): number {
  if (process.pid === undefined) assert.fail("the process did not start");
  return process.pid;
}

async function exitOf(process: ChildProcess): Promise<unknown[]> {
  if (process.exitCode !== null || process.signalCode !== null) return [process.exitCode, process.signalCode];
  return once(process, "exit", { signal: AbortSignal.timeout(limitMs) });
}

/** Gives those who read `descriptor` in the process the end of it. */
function endPipe(process: ChildProcess, descriptor: 3 | 4 | 5): void {
  // The declared tuple ends at descriptor 4.
  const pipe = (process.stdio as readonly (Readable | Writable | null | undefined)[])[descriptor];
  if (pipe === null || pipe === undefined) assert.fail(`descriptor ${descriptor} is no pipe`);
  pipe.destroy();
}

/** Starts a command that the end of the test kills, with all that it started in its PID namespace. */
function start(t: TestContext, command: readonly string[]): ChildProcess {
  const [file = "", ...args] = command;
  const started = spawn(file, args, { stdio: ["ignore", "ignore", "inherit", "pipe", "pipe", "pipe"] });
  t.after(() => {
    if (started.pid === undefined || started.exitCode !== null || started.signalCode !== null) return;
    for (const pid of childrenOf(started.pid)) process.kill(pid, "SIGKILL");
    started.kill("SIGKILL");
  });
  return started;
}

for (const architecture of ["amd64", "arm64"] as const) {
  describe(`pause-${architecture}`, () => {
    const command = commandFor(architecture);

    for (const signal of ["SIGTERM", "SIGINT"] as const) {
      testOf(`ends with 0 on ${signal}`, command, async (t, command) => {
        const pause = start(t, command);
        await until("it waits for signals", () => isWaiting(pidOf(pause)));
        process.kill(pidOf(pause), signal);
        assert.deepEqual(await exitOf(pause), [0, null]);
      });

      testOf(`ends with 0 on ${signal} as PID 1`, asFirstProcess(command), async (t, command) => {
        const unshare = start(t, command);
        const isReady = (): boolean => childrenOf(pidOf(unshare)).some(isWaiting);
        await until("it waits for signals", isReady);
        const [pause = 0] = childrenOf(pidOf(unshare));
        process.kill(pause, signal);
        assert.deepEqual(await exitOf(unshare), [0, null]);
      });
    }

    // Descriptor 4 holds a child that dies before the program starts, 5 the start, 3 a child and two orphans.
    const script = 'cat <&4 & cat <&3 & (cat <&3 & cat <&3 &); read _ <&5; exec "$@"';
    const behindParent = asFirstProcess(command, "sh", "-c", script, "sh");
    testOf(
      "reaps orphans as PID 1, those of before its start as well, and goes on",
      behindParent,
      async (t, command) => {
        const unshare = start(t, command);
        const children = (): number[] => childrenOf(childrenOf(pidOf(unshare))[0] ?? 0);
        await until("four children run", () => children().length === 4);
        endPipe(unshare, 4);
        // Some shells reap in the background.
        const hasOneLess = (): boolean => children().filter((pid) => statOf(pid)?.state !== "Z").length === 3;
        await until("one child is dead", hasOneLess);
        endPipe(unshare, 5);
        const [pause = 0] = childrenOf(pidOf(unshare));
        await until("it waits for signals", () => isWaiting(pause));
        await until("three children are left", () => children().length === 3);
        endPipe(unshare, 3);
        await until("no child is left, dead or alive", () => children().length === 0);
        await until("it waits for signals again", () => isWaiting(pause));
      },
    );
  });
}
