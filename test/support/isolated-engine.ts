/**
 * Tests that change links, routes and rules of a node, or stop its engine, run in namespaces with their own
 * engine. `npm test` runs several files in the same namespaces with the same engine, one after another. A
 * file that runs alone makes its own namespaces.
 */
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { existsSync, openSync, readFileSync } from "node:fs";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import {
  diskDirectory,
  namespacesVariable,
  openNamespaces,
  ownEngineSocket,
} from "../../scripts/setup/namespaces.mjs";
import { docker } from "./docker.js";
import { until } from "./wait.js";

export const pluginDirs = ["/opt/cni/bin", "/usr/lib/cni"] as const;

const run = promisify(execFile);
const root = fileURLToPath(new URL("../..", import.meta.url));
const logFile = "/run/dockerd.log";
const pidFile = "/run/docker.pid";
const containerdPidFile = "/run/docker/containerd/containerd.pid";
const settingsFile = join(diskDirectory, "daemon.json");
/**
 * With --long: less than the runner's limit of 2 h per file, so that the output is not lost.
 * kill-points.test.ts kills more than a thousand shims, which takes a few seconds each.
 */
const limitMs = process.env["DOCKERSHIM_TEST_LONG"] === "1" ? 6_900_000 : 840_000;

/** The engine of the namespaces, which tests may kill. */
export interface OwnEngine {
  /** Ends it, and with it its containerd; SIGTERM stops the containers first. */
  end(signal: "SIGTERM" | "SIGKILL"): Promise<void>;
  /** Returns when the engine answers. */
  start(): Promise<void>;
  /** Has it read its daemon.json once more, with these settings in addition to its own. */
  reload(settings: Readonly<Record<string, unknown>>): Promise<void>;
  /** To the engine alone: stopped, it accepts connections and answers none. */
  signal(name: "SIGSTOP" | "SIGCONT"): void;
}

/**
 * Defines `tests` with their own engine, which `docker.ts` then uses. `needs` are further required programs.
 * `settings` is the content of the engine's daemon.json; only other settings start another engine.
 */
export async function withOwnEngine(
  file: string,
  needs: readonly string[],
  tests: (engine: OwnEngine) => void,
  settings: Readonly<Record<string, unknown>> = {},
): Promise<void> {
  await inNamespaces(file, ["dockerd", "iptables", "ip6tables", "tc", ...needs], () => {
    const engine = new Dockerd(process.env[namespacesVariable] ?? "", settings);
    before(() => engine.ensureRunning());
    tests(engine);
  });
}

/**
 * Defines `tests` if this process is in namespaces, else one test that runs the file in namespaces or is
 * skipped.
 */
export async function inNamespaces(file: string, needs: readonly string[], tests: () => void): Promise<void> {
  const reason = await reasonToSkip(needs);
  if (isIsolated() && reason === false) {
    tests();
    return;
  }
  if (reason !== false) console.error(`LEFT OUT: ${basename(file)}: ${reason}`);
  test(`${basename(file)} in namespaces of its own`, { skip: reason }, async () => {
    const output = await runIsolated(file);
    assert.match(output, /^(?:#|ℹ) pass [1-9]/m, output);
  });
}

/** Whether this process is in namespaces of tests. */
export function isIsolated(): boolean {
  return process.env[namespacesVariable] !== undefined;
}

/**
 * Runs a program of the tests in new namespaces and returns its output. A failure throws an error with the
 * output.
 */
export async function runIsolated(file: string, argv: readonly string[] = []): Promise<string> {
  // The runner's own variable would make the child report to a parent that it does not have; colours would
  // hide the totals in its output.
  const { NODE_TEST_CONTEXT: _context, FORCE_COLOR: _color, ...environment } = process.env;
  const namespaces = await openNamespaces(root);
  try {
    const [program = "", ...words] = [...namespaces.command, process.execPath, ...process.execArgv];
    const { stdout, stderr } = await run(program, [...words, fileURLToPath(file), ...argv], {
      env: { ...environment, ...namespaces.env },
      timeout: limitMs,
      killSignal: "SIGKILL",
      maxBuffer: 64 * 1024 * 1024,
    }).catch((error: unknown) => {
      const {
        stdout = "",
        stderr = "",
        killed,
      } = error as Partial<Record<"stdout" | "stderr", string>> & { killed?: boolean };
      const why = killed === true ? `ended after ${limitMs} ms` : "failed";
      throw new Error(`${basename(file)} in its own namespaces ${why}:\n${stdout}${stderr}`);
    });
    return `${stdout}${stderr}`;
  } finally {
    await namespaces.close();
  }
}

/** The engine of the namespaces in which this process is, for tests that expect one that runs. */
export async function startOwnEngine(): Promise<void> {
  await new Dockerd(process.env[namespacesVariable] ?? "", {}).ensureRunning();
}

class Dockerd implements OwnEngine {
  constructor(
    private readonly name: string,
    private readonly settings: Readonly<Record<string, unknown>>,
  ) {}

  /** Keeps an engine of another file with the same settings. */
  async ensureRunning(): Promise<void> {
    const present = await readFile(settingsFile, "utf8").catch(() => undefined);
    if (enginePid() !== undefined) {
      // A failed test may have stopped it.
      this.#kill("SIGCONT");
      if (present === JSON.stringify(this.settings) && (await answers())) return;
      await this.end("SIGTERM");
    }
    await this.start();
  }

  async start(): Promise<void> {
    // Files of a killed engine would prevent the start of the next engine.
    for (const path of [pidFile, containerdPidFile]) await rm(path, { force: true });
    await mkdir(join(diskDirectory, "data"), { recursive: true });
    await this.#writeSettings({});
    const log = openSync(logFile, "a");
    const child = spawn(
      "dockerd",
      [
        `--config-file=${settingsFile}`,
        `--data-root=${join(diskDirectory, "data")}`,
        "--exec-root=/run/docker",
        `--pidfile=${pidFile}`,
        `--host=unix://${ownEngineSocket}`,
        `--cgroup-parent=/${this.name}`,
      ],
      // In a session of its own: it outlives this process, and the signals to its group.
      { stdio: ["ignore", log, log], detached: true },
    );
    child.unref();
    const failed = new Promise<never>((_, reject) => {
      child.once("error", reject);
      child.once("exit", () => {
        reject(new Error(`dockerd ended:\n${readFileSync(logFile, "utf8").slice(-4000)}`));
      });
    });
    await Promise.race([until("the engine to answer", answers), failed]);
    failed.catch(() => undefined);
  }

  async reload(settings: Readonly<Record<string, unknown>>): Promise<void> {
    await this.#writeSettings(settings);
    this.#kill("SIGHUP");
  }

  async #writeSettings(more: Readonly<Record<string, unknown>>): Promise<void> {
    await writeFile(settingsFile, JSON.stringify({ ...this.settings, ...more }));
  }

  signal(name: "SIGSTOP" | "SIGCONT"): void {
    this.#kill(name);
  }

  async end(signal: "SIGTERM" | "SIGKILL"): Promise<void> {
    // Its containerd ends with it, but a little later.
    const running = (): boolean =>
      enginePid() !== undefined || runningPid(containerdPidFile, "containerd") !== undefined;
    this.#kill(signal);
    await until("the engine to end", () => !running());
  }

  #kill(signal: NodeJS.Signals): void {
    const pid = enginePid();
    if (pid !== undefined) process.kill(Number(pid), signal);
  }
}

function answers(): Promise<boolean> {
  return docker("GET", "/_ping").then(
    ({ status }) => status === 200,
    () => false,
  );
}

/** Undefined when the engine does not run. */
function enginePid(): string | undefined {
  return runningPid(pidFile, "dockerd");
}

/** The running process of a pid file. After a kill the file stays, and another process may have the pid. */
function runningPid(file: string, program: string): string | undefined {
  try {
    const pid = readFileSync(file, "utf8").trim();
    return readFileSync(`/proc/${pid}/comm`, "utf8").trim() === program ? pid : undefined;
  } catch {
    return undefined;
  }
}

async function reasonToSkip(needs: readonly string[]): Promise<string | false> {
  if (process.platform !== "linux") return "not Linux";
  if (process.getuid?.() !== 0) return "not root";
  for (const program of ["unshare", "ip", "nsenter", "mount", ...needs]) {
    const found = await run("which", [program]).catch(() => undefined);
    if (found === undefined) return `${program} is not installed`;
  }
  for (const plugin of ["bridge", "host-local", "portmap", "bandwidth", "firewall", "tuning"]) {
    if (!pluginDirs.some((directory) => existsSync(`${directory}/${plugin}`))) {
      return `the CNI plugin ${plugin} is not installed`;
    }
  }
  if (isIsolated()) return false;
  const allowed = await run("unshare", ["--net", "--mount", "--pid", "--fork", "true"]).catch(
    () => undefined,
  );
  return allowed === undefined ? "no right to make namespaces" : false;
}
