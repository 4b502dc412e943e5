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
import type { Snapshot } from "../../../src/domain/snapshot.js";
import type { ContainerLogWriters } from "../../../src/shim/logs/container-log-writers.js";
import { FakeEngine } from "../../fakes/fake-engine.js";
import { fakeReach } from "../../fakes/reach.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { containerSnapshot, idOf } from "../../fakes/snapshots.js";
import { turns, until, withResolvers } from "../../fakes/turns.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";
import { FakeDockerLog } from "./file/fake-docker-log.js";
import { containerId, LoggedContainer, openLogWriters } from "./log-bench.js";

const slowly = { first: 3_600_000, longest: 3_600_000 };
const atOnce = { first: 1, longest: 2 };
const { signal } = new AbortController();

/** A container whose log the engine's logs API has, too. */
class Bed extends LoggedContainer {
  readonly host = { reach: fakeReach(true) };
  /** How often the logs API was read to its end. */
  reads = 0;

  static async open(): Promise<Bed> {
    return new Bed(await temporaryDirectory(), "main/0.log");
  }

  /** The writers of a process; with `created` those of the one that created the container. */
  async process({ created = true, times = slowly } = {}): Promise<ContainerLogWriters> {
    const engine = this.#engine;
    const writers = await this.openWriters({ engine, host: () => this.host }, times);
    if (created) await writers.created(containerId, this.target);
    return writers;
  }

  get #engine(): FakeEngine {
    const engine = new FakeEngine();
    engine.containerLogs = (_id, { sinceSeconds }) =>
      Promise.resolve({
        readOutput: async (take) => {
          for (const line of this.docker.expected) {
            if (Date.parse(line.slice(0, 19) + "Z") / 1000 < sinceSeconds) continue;
            const [time = "", stream = "", , ...words] = line.split(" ");
            await take(stream as "stdout", Buffer.from(`${time} ${words.join(" ")}`), true);
          }
        },
        close: () => (this.reads += 1),
      });
    return engine;
  }

  write(...lines: readonly string[]): void {
    for (const line of lines) this.docker.write([{ stream: "stdout", text: `${line}\n` }]);
  }

  get written(): string {
    return existsSync(this.target.path) ? readFileSync(this.target.path, "utf8") : "";
  }

  async untilWritten(): Promise<void> {
    await until("the log is written", () => this.written === this.docker.expected.join(""));
  }

  get record(): string {
    return readFileSync(this.recordPath, "utf8");
  }
}

describe("a log that cannot be opened", () => {
  /** The directory of the log is a file, until it is removed. */
  async function blocked(bed: Bed, times: typeof atOnce) {
    bed.write("line");
    writeFileSync(dirname(bed.target.path), "not a directory");
    const writers = await bed.process({ times });
    await writers.observe(bed.running);
    return { writers, unblock: () => rmSync(dirname(bed.target.path)) };
  }

  test("is retried, and reported once", async () => {
    await using bed = await Bed.open();
    const { unblock } = await blocked(bed, atOnce);
    await new Promise((resolve) => setTimeout(resolve, 20));
    assert.equal(bed.log.linesAt("error").length, 1);
    unblock();
    await bed.untilWritten();
  });

  test("is opened by reopen() while its container runs", async () => {
    await using bed = await Bed.open();
    const { writers, unblock } = await blocked(bed, slowly);
    unblock();
    await writers.reopen(containerId);
    await bed.untilWritten();
  });

  test("is not retried when its container is removed", async () => {
    await using bed = await Bed.open();
    const { writers, unblock } = await blocked(bed, atOnce);
    await writers.remove(containerId);
    unblock();
    await new Promise((resolve) => setTimeout(resolve, 20));
    assert.equal(existsSync(bed.target.path), false);
  });
});

test("with four log files that hang, the logs of other containers stand still, and their containers do not wait", async (t) => {
  await using directory = await temporaryDirectory();
  const root = directory.path;
  mkdirSync(join(root, "docker"));
  const hangs = new Set<string>();
  const { promise: woken, resolve: wake } = withResolvers();
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
    await writers.beforeStart(container, signal);
    await writers.observe(container);
  }
  const state = { ...ended.container.state, status: "exited", running: false } as const;
  const exit = writers.observe({ ...ended.container, state });
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
  assert.deepEqual(log.linesAt("warn").length, 1);
  assert.match(log.linesAt("warn")[0]?.message ?? "", /out of reach/);
  host.reach = fakeReach(true);
  assert.equal(await writers.created(idOf("ef"), target), false);
  assert.equal(writers.ownerOf(idOf("ef")), "engine");
  await writers.stop();
});

describe("a log continues behind its last line when Docker's file cannot be read any more", () => {
  const rotated = "0.log.20260102-150405";
  const rotate = async (writers: ContainerLogWriters, path: string): Promise<void> => {
    renameSync(path, join(dirname(path), rotated));
    await writers.reopen(containerId);
  };
  const rotateAndRemove: typeof rotate = async (writers, path) => {
    await rotate(writers, path);
    rmSync(join(dirname(path), rotated));
  };
  const inRotated = ([one = "", two = "", three = ""]: readonly string[]) => ({
    [rotated]: one + two,
    "0.log": three,
  });
  const inOne = (lines: readonly string[]) => ({ "0.log": lines.join("") });

  for (const [name, meanwhile, expected, isSilentFirst] of [
    ["in the same file", undefined, inOne, false],
    ["in a new file that was empty, by the last line of the rotated one", rotate, inRotated, false],
    ["in a new file that was still empty at the start after that", rotate, inRotated, true],
    ["with all lines of the engine when the rotated file is gone", rotateAndRemove, inOne, false],
  ] as const) {
    test(name, async () => {
      await using bed = await Bed.open();
      const first = await bed.process();
      bed.write("one", "two");
      await first.observe(bed.running);
      await bed.untilWritten();
      await meanwhile?.(first, bed.target.path);
      await first.stop();
      bed.host.reach = fakeReach(false);
      if (isSilentFirst) {
        const silent = await bed.process({ created: false });
        await silent.observe(bed.running);
        // The first one shows that the last line is not the first of its second.
        await until("the last line was found", () => bed.reads >= 2);
        await silent.stop();
      }
      bed.write("three");
      const second = await bed.process({ created: false });
      await second.observe(bed.exited);
      await second.stop();
      const directory = dirname(bed.target.path);
      const files = readdirSync(directory).map((file) => [file, readFileSync(join(directory, file), "utf8")]);
      assert.deepEqual(Object.fromEntries(files), expected(bed.docker.expected));
    });
  }
});

describe("the log that was opened before the start of its container", () => {
  /** Docker sets the path of its file at the start. */
  async function prepared(bed: Bed): Promise<ContainerLogWriters> {
    const writers = await bed.process();
    await writers.beforeStart({ ...bed.at({ status: "created" }), logPath: "" }, signal);
    assert.equal(bed.openCount, 1);
    return writers;
  }

  test("is continued from Docker's file, not opened again, and recorded once", async () => {
    await using bed = await Bed.open();
    const writers = await prepared(bed);
    const { record } = bed;
    assert.match(record, /"source":"file".*"inode":"\d+"/);
    await writers.observe(bed.running);
    assert.deepEqual([bed.openCount, bed.record], [1, record]);
    bed.write("line");
    await bed.untilWritten();
  });

  test("has all output of a container that ended before it was seen to run", async () => {
    await using bed = await Bed.open();
    const writers = await prepared(bed);
    bed.write("line");
    await writers.observe(bed.at({ status: "exited", exitCode: 1 }));
    assert.equal(bed.written, bed.docker.expected.join(""));
    assert.equal(bed.openCount, 0);
  });

  test("is opened again for another start: its file may be gone", async () => {
    await using bed = await Bed.open();
    const writers = await prepared(bed);
    rmSync(bed.target.path);
    await writers.beforeStart(bed.at({ status: "created" }), signal);
    assert.equal(bed.openCount, 1);
    bed.write("line");
    await writers.observe(bed.running);
    await bed.untilWritten();
  });

  test("is closed when the start has failed", async () => {
    await using bed = await Bed.open();
    const writers = await prepared(bed);
    await writers.observe(bed.at({ status: "created", exitCode: 127 }));
    assert.equal(bed.openCount, 0);
  });

  test("is continued from the logs API when the engine's files are out of reach after the start", async () => {
    await using bed = await Bed.open();
    const writers = await prepared(bed);
    bed.host.reach = fakeReach(false);
    bed.write("line");
    await writers.observe(bed.running);
    await bed.untilWritten();
  });
});
