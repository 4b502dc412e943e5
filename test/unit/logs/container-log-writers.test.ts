import type { Reach } from "../../../src/domain/reach.js";
import { fakeReach } from "../../fakes/reach.js";
import assert from "node:assert/strict";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { open, type FileHandle } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, test } from "node:test";
import type { ContainerLogWriters } from "../../../src/shim/logs/container-log-writers.js";
import type { Snapshot } from "../../../src/domain/snapshot.js";
import { FakeEngine } from "../../fakes/fake-engine.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { containerSnapshot, idOf } from "../../fakes/snapshots.js";
import { turns, until } from "../../fakes/turns.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";
import { FakeDockerLog } from "./file/fake-docker-log.js";
import { containerId, openLogWriters } from "./log-bench.js";

const slowly = { first: 3_600_000, longest: 3_600_000 };
const atOnce = { first: 1, longest: 2 };

/** A running container with one line in Docker's file, and a log path whose directory is a file. */
class BlockedLog implements AsyncDisposable {
  readonly log = recordingLog();
  readonly path: string;
  readonly container: ReturnType<typeof containerSnapshot>;
  writers!: ContainerLogWriters;

  constructor(private readonly root: Awaited<ReturnType<typeof temporaryDirectory>>) {
    const docker = dockerLogIn(root.path);
    docker.write([{ stream: "stdout", text: "line\n" }]);
    this.container = containerSnapshot(containerId, idOf("cd"), {
      state: { status: "running", running: true },
      logDriver: "json-file",
      logPath: docker.path,
    });
    mkdirSync(join(root.path, "pod"));
    this.path = join(root.path, "pod", "main", "0.log");
    writeFileSync(dirname(this.path), "not a directory");
  }

  static async open(retry: typeof atOnce): Promise<BlockedLog> {
    const blocked = new BlockedLog(await temporaryDirectory());
    const { root, log, path } = blocked;
    blocked.writers = await openLogWriters(root.path, log, {}, retry);
    await blocked.writers.created(containerId, { directory: join(root.path, "pod"), path });
    return blocked;
  }

  unblock(): void {
    rmSync(dirname(this.path));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.writers.stop();
    await this.root[Symbol.asyncDispose]();
  }
}

function dockerLogIn(root: string): FakeDockerLog {
  mkdirSync(join(root, "docker"));
  return new FakeDockerLog(join(root, "docker", `${containerId}-json.log`));
}

async function untilWritten(path: string): Promise<void> {
  while (!existsSync(path) || readFileSync(path, "utf8") === "") {
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

describe("ContainerLogWriters", () => {
  test("a log that cannot be opened is retried, and reported once", async () => {
    await using bench = await BlockedLog.open(atOnce);
    const { writers, container, path, log } = bench;
    await writers.observe(container);
    await new Promise((resolve) => setTimeout(resolve, 20));
    assert.equal(log.lines.filter(({ level }) => level === "error").length, 1);
    bench.unblock();
    await untilWritten(path);
    assert.match(readFileSync(path, "utf8"), / stdout F line\n$/);
  });

  test("reopen() opens the log of a running container that could not be opened before", async () => {
    await using bench = await BlockedLog.open(slowly);
    const { writers, container, path } = bench;
    await writers.observe(container);
    bench.unblock();
    await writers.reopen(containerId);
    await untilWritten(path);
  });

  test("the log of a removed container is not retried", async () => {
    await using bench = await BlockedLog.open(atOnce);
    const { writers, container, path } = bench;
    await writers.observe(container);
    await writers.remove(containerId);
    bench.unblock();
    await new Promise((resolve) => setTimeout(resolve, 20));
    assert.equal(existsSync(path), false);
  });
});

test("with four log files that hang, the logs of other containers stand still, and their containers do not wait", async (t) => {
  await using directory = await temporaryDirectory();
  const root = directory.path;
  mkdirSync(join(root, "docker"));
  const hangs = new Set<string>();
  let wake = (): void => undefined;
  const woken = new Promise<void>((resolve) => (wake = resolve));
  const handle = await open(root);
  const prototype = Object.getPrototypeOf(handle) as FileHandle;
  await handle.close();
  const read = Reflect.get(prototype, "read") as (this: FileHandle, ...args: unknown[]) => Promise<unknown>;
  t.mock.method(prototype, "read", async function (this: FileHandle, ...args: unknown[]) {
    const path = readlinkSync(`/proc/self/fd/${String(this.fd)}`);
    if (path.startsWith(join(root, "docker"))) {
      hangs.add(path);
      await woken;
    }
    return read.apply(this, args);
  });
  const writers = await openLogWriters(root, recordingLog(), {}, slowly);
  const logOf = async (name: string): Promise<{ container: Snapshot; path: string }> => {
    const docker = new FakeDockerLog(join(root, "docker", `${name}-json.log`));
    docker.write([{ stream: "stdout", text: "line\n" }]);
    mkdirSync(join(root, name));
    const path = join(root, name, "0.log");
    await writers.created(idOf(name), { directory: join(root, name), path });
    const state = { status: "running", running: true } as const;
    const changes = { state, logDriver: "json-file", logPath: docker.path };
    return { container: containerSnapshot(idOf(name), idOf("cd"), changes), path };
  };
  for (const name of ["1", "2", "3", "4"]) await writers.observe((await logOf(name)).container);
  await until("all turns are taken", () => hangs.size === 4);

  const ended = await logOf("5");
  const removed = await logOf("6");
  t.mock.timers.enable({ apis: ["setTimeout"] });
  for (const { container } of [ended, removed]) {
    await writers.beforeStart(container, new AbortController().signal);
    await writers.observe(container);
  }
  const exit = writers.observe({
    ...ended.container,
    state: { ...ended.container.state, status: "exited", running: false },
  });
  const removal = writers.remove(removed.container.id);
  await turns(20);
  t.mock.timers.tick(5_000);
  await Promise.all([exit, removal]);
  assert.equal(hangs.size, 4);
  assert.equal(readFileSync(ended.path, "utf8"), "");

  wake();
  await until("the log is written", () => readFileSync(ended.path, "utf8") !== "");
  t.mock.timers.reset();
  await writers.stop();
});

test("--container-log-format=docker is that of the CRI where a link to the engine's file would lead nowhere", async () => {
  await using directory = await temporaryDirectory();
  const log = recordingLog();
  const host = { reach: fakeReach(false) };
  const writers = await openLogWriters(directory.path, log, { format: "docker", host: () => host });
  const target = { directory: directory.path, path: join(directory.path, "0.log") };
  for (const name of ["ab", "cd"]) {
    assert.equal(await writers.created(idOf(name), target), true);
    assert.equal(writers.ownerOf(idOf(name)), "shim");
  }
  assert.deepEqual(
    log.lines.filter(({ level }) => level === "warn").map(({ message }) => /out of reach/.test(message)),
    [true],
  );
  host.reach = fakeReach(true);
  assert.equal(await writers.created(idOf("ef"), target), false);
  assert.equal(writers.ownerOf(idOf("ef")), "engine");
  await writers.stop();
});

/** The engine's logs API for a file of Docker's. */
function engineOf(
  docker: FakeDockerLog,
  onRead: () => void = () => undefined,
): Pick<FakeEngine, "containerLogs" | "attachContainer" | "inspectContainer"> {
  const engine = new FakeEngine();
  engine.containerLogs = (_id, { sinceSeconds }) =>
    Promise.resolve({
      readOutput: async (take) => {
        for (const line of docker.expected) {
          if (Date.parse(line.slice(0, 19) + "Z") / 1000 < sinceSeconds) continue;
          const [time = "", stream = "", , ...words] = line.split(" ");
          await take(stream as "stdout", Buffer.from(`${time} ${words.join(" ")}`), true);
        }
      },
      close: onRead,
    });
  return engine;
}

/**
 * The log files when two lines are written from Docker's file, then `meanwhile` happens, and a third line
 * comes when that file is out of reach; with `isSilentFirst` that is so only at the second of two starts.
 * `lines`: what the container has written.
 */
async function logsAcrossSources(
  meanwhile: (writers: ContainerLogWriters, path: string) => Promise<void> = () => Promise.resolve(),
  { isSilentFirst = false } = {},
): Promise<{ readonly files: Readonly<Record<string, string>>; readonly lines: readonly string[] }> {
  await using directory = await temporaryDirectory();
  const root = directory.path;
  const docker = dockerLogIn(root);
  const log = recordingLog();
  const target = { directory: join(root, "pod"), path: join(root, "pod", "0.log") };
  const state = { status: "exited", running: false, finished: 1n } as const;
  const ended = { state, logDriver: "json-file", logPath: docker.path };
  const container = containerSnapshot(containerId, idOf("cd"), ended);
  const running = { ...container, state: { ...container.state, status: "running", running: true } } as const;
  let reads = 0;
  const engine = engineOf(docker, () => (reads += 1));
  const open = (local: boolean): Promise<ContainerLogWriters> =>
    openLogWriters(root, log, { engine, host: () => ({ reach: fakeReach(local) }) });
  const first = await open(true);
  await first.created(containerId, target);
  docker.write([{ stream: "stdout", text: "one\n" }]);
  docker.write([{ stream: "stdout", text: "two\n" }]);
  await first.observe(running);
  const isWritten = () => readFileSync(target.path, "utf8") === docker.expected.join("");
  await until("both are written", () => existsSync(target.path) && isWritten());
  await meanwhile(first, target.path);
  await first.stop();
  if (isSilentFirst) {
    const silent = await open(false);
    await silent.observe(running);
    // The first one shows that the last line is not the first of its second.
    await until("the last line was found", () => reads >= 2);
    await silent.stop();
  }
  docker.write([{ stream: "stdout", text: "three\n" }]);
  const second = await open(false);
  await second.observe(container);
  await second.stop();
  const names = readdirSync(target.directory);
  const files = names.map((name) => [name, readFileSync(join(target.directory, name), "utf8")] as const);
  return { files: Object.fromEntries(files), lines: docker.expected };
}

describe("a log continues behind its last line when Docker's file cannot be read any more", () => {
  const rotated = "0.log.20260102-150405";
  const rotate = async (writers: ContainerLogWriters, path: string): Promise<void> => {
    renameSync(path, join(dirname(path), rotated));
    await writers.reopen(containerId);
  };

  test("in the same file", async () => {
    const { files, lines } = await logsAcrossSources();
    assert.deepEqual(files, { "0.log": lines.join("") });
  });

  test("in a new file that was empty, by the last line of the rotated one", async () => {
    const { files, lines } = await logsAcrossSources(rotate);
    assert.deepEqual(files, { [rotated]: lines.slice(0, 2).join(""), "0.log": lines[2] });
  });

  test("in a new file that was still empty at the start after that", async () => {
    const { files, lines } = await logsAcrossSources(rotate, { isSilentFirst: true });
    assert.deepEqual(files, { [rotated]: lines.slice(0, 2).join(""), "0.log": lines[2] });
  });

  test("with all lines of the engine when the rotated file is gone", async () => {
    const { files, lines } = await logsAcrossSources(async (writers, path) => {
      await rotate(writers, path);
      rmSync(join(dirname(path), rotated));
    });
    assert.deepEqual(files, { "0.log": lines.join("") });
  });
});

interface PreparedLog {
  readonly writers: ContainerLogWriters;
  readonly docker: FakeDockerLog;
  readonly path: string;
  readonly host: { reach: Reach };
  readonly at: (state: Partial<Snapshot["state"]>) => Snapshot;
}

/** A container that was not started yet, with its log opened by `beforeStart`. */
async function preparedLog(root: string): Promise<PreparedLog> {
  const docker = dockerLogIn(root);
  // Docker sets the path of its file at the start.
  const created = containerSnapshot(containerId, idOf("cd"), {
    state: { status: "created", running: false },
    logDriver: "json-file",
    logPath: "",
  });
  const path = join(root, "pod", "main", "0.log");
  const engine = engineOf(docker);
  const host = { reach: fakeReach(true) };
  const writers = await openLogWriters(root, recordingLog(), { engine, host: () => host });
  await writers.created(containerId, { directory: join(root, "pod"), path });
  await writers.beforeStart(created, new AbortController().signal);
  const at = (state: Partial<Snapshot["state"]>): Snapshot => ({
    ...created,
    logPath: docker.path,
    state: { ...created.state, ...state },
  });
  return { writers, docker, path, host, at };
}

/** How often this process has the file open. */
function openCount(path: string): number {
  return readdirSync("/proc/self/fd").filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`) === path;
    } catch {
      return false;
    }
  }).length;
}

describe("the log that was opened before the start of its container", () => {
  test("is continued from Docker's file, not opened again, and recorded once", async () => {
    await using root = await temporaryDirectory();
    const { writers, docker, path, at } = await preparedLog(root.path);
    const recorded = (): string => readFileSync(join(root.path, "logs", `${containerId}.json`), "utf8");
    assert.equal(openCount(path), 1);
    assert.match(recorded(), /"inode":""/);
    docker.write([]);
    await writers.observe(at({ status: "running", running: true }));
    assert.equal(openCount(path), 1);
    assert.match(recorded(), /"source":"file".*"inode":"\d+"/);
    docker.write([{ stream: "stdout", text: "line\n" }]);
    await untilWritten(path);
    await writers.stop();
    assert.equal(openCount(path), 0);
  });

  test("has all output of a container that ended before it was seen to run", async () => {
    await using root = await temporaryDirectory();
    const { writers, docker, path, at } = await preparedLog(root.path);
    docker.write([{ stream: "stdout", text: "line\n" }]);
    await writers.observe(at({ status: "exited", exitCode: 1 }));
    assert.match(readFileSync(path, "utf8"), / stdout F line\n$/);
    assert.equal(openCount(path), 0);
  });

  test("is opened again for another start: its file may be gone", async () => {
    await using root = await temporaryDirectory();
    const { writers, docker, path, at } = await preparedLog(root.path);
    rmSync(path);
    await writers.beforeStart(at({}), new AbortController().signal);
    assert.equal(openCount(path), 1);
    docker.write([{ stream: "stdout", text: "line\n" }]);
    await writers.observe(at({ status: "running", running: true }));
    await untilWritten(path);
    await writers.stop();
    assert.equal(openCount(path), 0);
  });

  test("is closed when the start has failed", async () => {
    await using root = await temporaryDirectory();
    const { writers, path, at } = await preparedLog(root.path);
    await writers.observe(at({ exitCode: 127 }));
    assert.equal(openCount(path), 0);
  });

  test("is continued from the logs API when the engine's files are out of reach after the start", async () => {
    await using root = await temporaryDirectory();
    const { writers, docker, path, host, at } = await preparedLog(root.path);
    host.reach = fakeReach(false);
    docker.write([{ stream: "stdout", text: "line\n" }]);
    await writers.observe(at({ status: "running", running: true }));
    await untilWritten(path);
    await writers.stop();
    assert.equal(openCount(path), 0);
  });
});
