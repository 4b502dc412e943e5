import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, test } from "node:test";
import { ContainerLogWriters } from "../../../src/shim/logs/container-log-writers.js";
import { LogRecords } from "../../../src/shim/logs/log-record.js";
import { FakeEngine } from "../../fakes/fake-engine.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { containerSnapshot, idOf } from "../../fakes/snapshots.js";
import { until } from "../../fakes/turns.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";
import { FakeDockerLog } from "./file/fake-docker-log.js";

const containerId = idOf("ab");
const slowly = { first: 3_600_000, longest: 3_600_000 };
const atOnce = { first: 1, longest: 2 };

/** A running container with one line in Docker's file, and a log path where a file is in the way of the directory. */
async function withBlockedLog(
  retry: typeof atOnce,
  work: (world: {
    readonly writers: ContainerLogWriters;
    readonly container: ReturnType<typeof containerSnapshot>;
    readonly path: string;
    readonly log: ReturnType<typeof recordingLog>;
    readonly unblock: () => void;
  }) => Promise<void>,
): Promise<void> {
  await using directory = await temporaryDirectory();
  const root = directory.path;
  mkdirSync(join(root, "docker"));
  mkdirSync(join(root, "pod"));
  const docker = new FakeDockerLog(join(root, "docker", `${containerId}-json.log`));
  docker.write([{ stream: "stdout", text: "line\n" }]);
  const log = recordingLog();
  const writers = new ContainerLogWriters(
    {
      ...{ engine: new FakeEngine(), host: () => ({ local: true }), log, format: "cri", adopted: "keep" },
      records: await LogRecords.open(join(root, "logs"), log, join(root, "quarantine")),
    },
    retry,
  );
  const container = containerSnapshot(containerId, idOf("cd"), {
    state: { status: "running", running: true },
    ...{ logDriver: "json-file", logPath: docker.path },
  });
  const blocked = join(root, "pod", "main");
  const path = join(blocked, "0.log");
  writeFileSync(blocked, "in the way");
  await writers.created(container, { directory: join(root, "pod"), path });
  const unblock = (): void => {
    rmSync(blocked);
  };
  try {
    await work({ writers, container, path, log, unblock });
  } finally {
    await writers.stop();
  }
}

async function untilWritten(path: string): Promise<void> {
  while (!existsSync(path) || readFileSync(path, "utf8") === "") {
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

describe("ContainerLogWriters", () => {
  test("a log that could not be begun is begun as soon as it can be, and reported once", async () => {
    await withBlockedLog(atOnce, async ({ writers, container, path, log, unblock }) => {
      await writers.observe(container);
      await new Promise((resolve) => setTimeout(resolve, 20));
      assert.equal(log.lines.filter(({ level }) => level === "error").length, 1);
      unblock();
      await untilWritten(path);
      assert.match(readFileSync(path, "utf8"), / stdout F line\n$/);
    });
  });

  test("reopen begins the log of a running container that could not be begun", async () => {
    await withBlockedLog(slowly, async ({ writers, container, path, unblock }) => {
      await writers.observe(container);
      unblock();
      await writers.reopen(containerId);
      await untilWritten(path);
    });
  });

  test("nothing is tried again for a container that was removed", async () => {
    await withBlockedLog(atOnce, async ({ writers, container, path, unblock }) => {
      await writers.observe(container);
      await writers.remove(containerId);
      unblock();
      await new Promise((resolve) => setTimeout(resolve, 20));
      assert.equal(existsSync(path), false);
    });
  });
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
 * The log files when two lines are written from Docker's file, then `meanwhile` happens, and a third line comes when that
 * file is out of reach; with `isSilentFirst` that is so only at the second of two starts. `lines`: what the container has
 * written.
 */
async function logsAcrossSources(
  meanwhile: (writers: ContainerLogWriters, path: string) => Promise<void> = () => Promise.resolve(),
  { isSilentFirst = false } = {},
): Promise<{ readonly files: Readonly<Record<string, string>>; readonly lines: readonly string[] }> {
  await using directory = await temporaryDirectory();
  const root = directory.path;
  mkdirSync(join(root, "docker"));
  const docker = new FakeDockerLog(join(root, "docker", `${containerId}-json.log`));
  const log = recordingLog();
  const target = { directory: join(root, "pod"), path: join(root, "pod", "0.log") };
  const state = { status: "exited", running: false, finished: 1n } as const;
  const ended = { state, logDriver: "json-file", logPath: docker.path };
  const container = containerSnapshot(containerId, idOf("cd"), ended);
  const running = { ...container, state: { ...container.state, status: "running", running: true } } as const;
  let reads = 0;
  const open = async (local: boolean): Promise<ContainerLogWriters> =>
    new ContainerLogWriters({
      ...{
        engine: engineOf(docker, () => (reads += 1)),
        host: () => ({ local }),
        log,
        format: "cri",
        adopted: "keep",
      },
      records: await LogRecords.open(join(root, "logs"), log, join(root, "quarantine")),
    });
  const first = await open(true);
  await first.created(container, target);
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

describe("a log goes on behind its last line when Docker's file is out of reach since the last start", () => {
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

  test("but has all lines that the engine has when the rotated file is gone, too", async () => {
    const { files, lines } = await logsAcrossSources(async (writers, path) => {
      await rotate(writers, path);
      rmSync(join(dirname(path), rotated));
    });
    assert.deepEqual(files, { "0.log": lines.join("") });
  });
});
