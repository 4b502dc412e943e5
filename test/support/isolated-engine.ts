/**
 * Tests of pod networks change links, routes and rules of a host, and kill its engine. So a test file runs itself once
 * more, in network, mount and process namespaces of its own with an engine of its own: /run, /var/lib, /sys and /proc are
 * not the machine's there. All of it vanishes with the first process of the namespaces, however the tests end.
 */
import assert from "node:assert/strict";
import { execFile, spawn, type ChildProcess } from "node:child_process";
import { existsSync, openSync, readFileSync } from "node:fs";
import { mkdtemp, mkdir, readdir, rm, rmdir, statfs, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { docker } from "./docker.js";
import { until } from "./wait.js";

export const pluginDirs = ["/opt/cni/bin", "/usr/lib/cni"] as const;

const run = promisify(execFile);
/** Set inside to the name of the run, which names its cgroup too. */
const inside = "DOCKERSHIM_TEST_OWN_ENGINE";
const socket = "/run/docker.sock";
const logFile = "/run/dockerd.log";
/** Where the data root of the engine is visible inside. */
const engineDirectory = "/run/engine";
/**
 * In full: below the 2 h that the runner gives a file, so that what was printed until then is not lost. kill-points.test.ts
 * kills more than a thousand shims, a few seconds each.
 */
const limitMs = process.env["DOCKERSHIM_TEST_LONG"] === "1" ? 6_900_000 : 840_000;
const overlayType = 0x794c7630;

/** The engine of the namespaces, which tests may kill. */
export interface OwnEngine {
  /** Ends it, and with it its containerd; SIGTERM stops the containers first. */
  end(signal: "SIGTERM" | "SIGKILL"): Promise<void>;
  /** Returns when it answers. */
  start(): Promise<void>;
  /** Has it read its daemon.json once more, with these settings in addition to its own. */
  reload(settings: Readonly<Record<string, unknown>>): Promise<void>;
  /** To the engine alone: stopped, it accepts connections and answers none. */
  signal(name: "SIGSTOP" | "SIGCONT"): void;
}

/**
 * Defines `tests` inside namespaces of their own, where the engine of `docker.ts` is one of their own; outside, defines
 * one test that runs them there. `needs` are programs beside those of every such test, `settings` what the engine reads
 * from its daemon.json.
 */
export async function withOwnEngine(
  file: string,
  needs: readonly string[],
  tests: (engine: OwnEngine) => void,
  settings: Readonly<Record<string, unknown>> = {},
): Promise<void> {
  const name = process.env[inside];
  if (name !== undefined) {
    const engine = new Dockerd(name, settings);
    before(async () => {
      await prepareNode();
      await engine.start();
    });
    after(() => engine.end("SIGTERM"));
    tests(engine);
    return;
  }
  const reason = await reasonToSkip(["dockerd", "iptables", "ip6tables", "tc", ...needs]);
  if (reason !== false) console.error(`LEFT OUT: ${basename(file)}: ${reason}`);
  test(`${basename(file)} with an engine of its own`, { skip: reason }, async () => {
    const output = await runIsolated(file);
    assert.match(output, /^(?:#|ℹ) pass [1-9]/m, output);
  });
}

/** Whether this process is in the namespaces that `runIsolated` makes. */
export function isIsolated(): boolean {
  return process.env[inside] !== undefined;
}

/**
 * Runs a program of the tests in namespaces of its own; answers what it printed. Throws with that when it fails. Files
 * and cgroups of it are removed.
 */
export async function runIsolated(file: string, argv: readonly string[] = []): Promise<string> {
  const directory = await realDirectory();
  const name = basename(directory);
  // The runner's own variable would make the child report to a parent that it does not have.
  const { NODE_TEST_CONTEXT: _context, ...environment } = process.env;
  const namespaces = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];
  // The first process of the namespace reaps what others leave, which Node.js would not do.
  const first = ["sh", "-c", `${mounts} && "$@"; exit $?`, directory];
  const program = [process.execPath, ...process.execArgv, fileURLToPath(file), ...argv];
  try {
    const { stdout, stderr } = await run(
      "unshare",
      [...namespaces, "--propagation", "private", "--", ...first, ...program],
      {
        env: {
          ...environment,
          [inside]: name,
          TMPDIR: "/run/tmp",
          DOCKERSHIM_TEST_DOCKER_ENDPOINT: `unix://${socket}`,
        },
        timeout: limitMs,
        killSignal: "SIGKILL",
        maxBuffer: 64 * 1024 * 1024,
      },
    ).catch((error: unknown) => {
      const {
        stdout = "",
        stderr = "",
        killed,
      } = error as {
        stdout?: string;
        stderr?: string;
        killed?: boolean;
      };
      const why = killed === true ? `ended after ${String(limitMs)} ms` : "failed";
      throw new Error(`${basename(file)} in its own namespaces ${why}:\n${stdout}${stderr}`);
    });
    return `${stdout}${stderr}`;
  } finally {
    await removeCgroups(name);
    await rm(directory, { recursive: true, force: true, maxRetries: 20 });
  }
}

/** Done before anything of Node.js runs inside; `$0` is the directory outside. */
const mounts = [
  "mount -t tmpfs tmpfs /run",
  `mkdir -p ${engineDirectory} /run/tmp /run/cgroup`,
  `mount --bind "$0" ${engineDirectory}`,
  "mount -t tmpfs tmpfs /var/lib",
  // A sysfs shows the links of the network namespace in which it was mounted.
  "mount --rbind /sys/fs/cgroup /run/cgroup",
  "mount -t sysfs sysfs /sys",
  "mount --rbind /run/cgroup /sys/fs/cgroup",
].join(" && ");

/** As on a machine that has just started: the engine switches forwarding on, and then forbids it for all but its own. */
async function prepareNode(): Promise<void> {
  await run("ip", ["link", "set", "lo", "up"]);
  await writeFile("/proc/sys/net/ipv4/ip_forward", "0");
}

class Dockerd implements OwnEngine {
  #child: ChildProcess | undefined;
  #exited: Promise<void> = Promise.resolve();

  constructor(
    private readonly name: string,
    private readonly settings: Readonly<Record<string, unknown>>,
  ) {}

  async start(): Promise<void> {
    // What a killed one left would keep its successor from starting.
    for (const path of ["/run/docker.pid", "/run/docker/containerd/containerd.pid"])
      await rm(path, { force: true });
    await mkdir(join(engineDirectory, "data"), { recursive: true });
    await this.#writeSettings({});
    const log = openSync(logFile, "a");
    const child = spawn(
      "dockerd",
      [
        `--config-file=${join(engineDirectory, "daemon.json")}`,
        `--data-root=${join(engineDirectory, "data")}`,
        "--exec-root=/run/docker",
        "--pidfile=/run/docker.pid",
        `--host=unix://${socket}`,
        `--cgroup-parent=/${this.name}`,
      ],
      { stdio: ["ignore", log, log] },
    );
    this.#child = child;
    this.#exited = new Promise((resolve) => {
      child.once("exit", () => resolve());
      child.once("error", () => resolve());
    });
    await until("the engine to answer", async () => {
      if (child.exitCode !== null || child.pid === undefined) {
        throw new Error(`dockerd ended:\n${readFileSync(logFile, "utf8").slice(-4000)}`);
      }
      return docker("GET", "/_ping").then(
        ({ status }) => status === 200,
        () => false,
      );
    });
  }

  async reload(settings: Readonly<Record<string, unknown>>): Promise<void> {
    await this.#writeSettings(settings);
    this.#child?.kill("SIGHUP");
  }

  async #writeSettings(more: Readonly<Record<string, unknown>>): Promise<void> {
    await writeFile(join(engineDirectory, "daemon.json"), JSON.stringify({ ...this.settings, ...more }));
  }

  signal(name: "SIGSTOP" | "SIGCONT"): void {
    this.#child?.kill(name);
  }

  async end(signal: "SIGTERM" | "SIGKILL"): Promise<void> {
    const containerd = containerdPid();
    this.#child?.kill(signal);
    await this.#exited;
    // It ends with the engine, but a little later.
    if (containerd !== undefined) await until("containerd to end", () => !existsSync(`/proc/${containerd}`));
  }
}

function containerdPid(): string | undefined {
  try {
    return readFileSync("/run/docker/containerd/containerd.pid", "utf8").trim();
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
  const allowed = await run("unshare", ["--net", "--mount", "--pid", "--fork", "true"]).catch(
    () => undefined,
  );
  return allowed === undefined ? "no right to make namespaces" : false;
}

/** A new directory on a file system that can carry the overlays of an engine. */
async function realDirectory(): Promise<string> {
  const places = [tmpdir(), "/var/tmp", "/var/lib"];
  for (const place of places) {
    if (existsSync(place) && (await statfs(place)).type !== overlayType) {
      return mkdtemp(join(place, "dockershim-engine-"));
    }
  }
  throw new Error(`none of ${places.join(", ")} can hold the data of an engine`);
}

/** The groups of all containers; their processes may take a moment to go. */
async function removeCgroups(name: string): Promise<void> {
  const base = "/sys/fs/cgroup";
  const hierarchies = await readdir(base, { withFileTypes: true }).catch(() => []);
  const parents = [
    base,
    ...hierarchies.filter((entry) => entry.isDirectory()).map((entry) => join(base, entry.name)),
  ];
  for (const parent of parents) {
    const group = join(parent, name);
    for (let tries = 0; existsSync(group) && tries < 50; tries += 1) {
      if (tries > 0) await sleep(100);
      await removeGroup(group).catch(() => undefined);
    }
  }
}

async function removeGroup(group: string): Promise<void> {
  for (const entry of await readdir(group, { withFileTypes: true })) {
    if (entry.isDirectory()) await removeGroup(join(group, entry.name));
  }
  await rmdir(group);
}
