/**
 * The engine's host, for tests that look behind the engine's API. It is this host, unless the run has an engine of which
 * only a socket is shared (`npm run engine-matrix -- elsewhere:tcp`): then its files and processes are found by one of its
 * processes. The shim has no such means.
 */
import { execFile } from "node:child_process";
import { readlink } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { elsewhereVariable } from "../../scripts/setup/engine-elsewhere.mjs";
import { showPort } from "../../scripts/setup/relay.mjs";
import type { ReachJob } from "../../src/domain/reach.js";

const run = promisify(execFile);
const pid = process.env[elsewhereVariable] ?? "";

/** Whether the run has an engine of another host. */
export const isEngineElsewhere = pid !== "";

/** Where this process finds a file of the engine's host; `/proc` is that of its processes. */
export function onEngineHost(path: string): string {
  return isEngineElsewhere ? join(`/proc/${pid}/root`, path) : path;
}

/** A process in the namespaces of the engine's host, as its engine calls it. */
export const pidOnEngineHost = isEngineElsewhere ? 1 : process.pid;

/** The name of a namespace of the engine's host. */
export function hostNamespace(kind: string): Promise<string> {
  return readlink(onEngineHost(`/proc/${pidOnEngineHost}/ns/${kind}`));
}

/** What a web server answers on an address that the engine's host reaches. */
export async function fetchOnEngineHost(url: string, timeoutMs: number): Promise<string> {
  if (!isEngineElsewhere) return (await fetch(url, { signal: AbortSignal.timeout(timeoutMs) })).text();
  const script = `fetch(process.argv[1], { signal: AbortSignal.timeout(${timeoutMs}) })
    .then((answer) => answer.text()).then((text) => process.stdout.write(text))`;
  const words = [`--target=${pid}`, "--net", "--", process.execPath, "-e", script, url];
  return (await run("nsenter", words)).stdout;
}

/** For the option `skip` of tests whose subject is a job of the shim on the engine's host. */
export function needsEngineHost(job: ReachJob): string | false {
  return isEngineElsewhere ? `the engine's host is out of reach: ${job}` : false;
}

/** `pid` is what the engine calls the process. */
export async function signalOnEngineHost(target: number, signal: "SIGKILL"): Promise<void> {
  if (!isEngineElsewhere) {
    process.kill(target, signal);
    return;
  }
  const kill = ["kill", `-${signal.slice(3)}`, String(target)];
  await run("nsenter", [`--target=${pid}`, "--pid", "--mount", "--", ...kill]);
}

/** Lets the engine reach a port of this host's loopback, as a registry's. */
export async function openToEngine(port: number): Promise<AsyncDisposable> {
  const undo: (() => Promise<unknown>)[] = [];
  const close = async (): Promise<void> => {
    for (const step of undo.splice(0).reverse()) await step();
  };
  try {
    if (isEngineElsewhere) await showPort(pid, port, undo);
  } catch (error) {
    await close();
    throw error;
  }
  return { [Symbol.asyncDispose]: close };
}
