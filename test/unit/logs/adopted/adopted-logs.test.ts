import assert from "node:assert/strict";
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { convertedRecord } from "../../../../src/shim/logs/adopted/convert-link.js";
import type { ContainerLogWriters } from "../../../../src/shim/logs/container-log-writers.js";
import { HistoryWriter } from "../../../../src/shim/logs/adopted/history-writer.js";
import { LogOutput } from "../../../../src/shim/logs/sink/log-output.js";
import { LogRecords } from "../../../../src/shim/logs/log-record.js";
import { type Turn, TurnQueue } from "../../../../src/shim/logs/turn-queue.js";
import { idOf } from "../../../fakes/snapshots.js";
import { until } from "../../../fakes/turns.js";
import { temporaryDirectory } from "../../lib/temporary-directory.js";
import { containerId, LoggedContainer } from "../log-bench.js";

const rotated = "0.log.20260102-150405";

/** A running container of cri-dockerd: its log is a link to Docker's file. */
class World extends LoggedContainer {
  #lines = 0;

  static async open(): Promise<World> {
    const world = new World(await temporaryDirectory(), "0.log");
    symlinkSync(world.docker.path, world.target.path);
    return world;
  }

  write(count: number): void {
    for (let line = 0; line < count; line += 1) {
      this.docker.write([{ stream: "stdout", text: `line ${String((this.#lines += 1))}\n` }]);
    }
  }

  records(): Promise<LogRecords> {
    return LogRecords.open(join(this.root, "logs"), this.log, join(this.root, "quarantine"));
  }

  writers(adopted: "keep" | "convert" = "convert"): Promise<ContainerLogWriters> {
    return this.openWriters({ adopted });
  }

  /** The writers after a rotation that converts the link. */
  async converted(): Promise<ContainerLogWriters> {
    this.rename();
    const writers = await this.writers();
    await writers.convert(this.running, this.target);
    return writers;
  }

  /** As after a kill of a process that has recorded the conversion and done no more. */
  async recordConversion(): Promise<void> {
    this.rename();
    await (await this.records()).put(await convertedRecord(this.running, this.target));
  }

  /** The container ends: every line is written once, in order. */
  async assertWholeAtEnd(writers: ContainerLogWriters): Promise<void> {
    await this.untilWhole();
    await writers.observe(this.exited);
    this.assertWhole();
  }

  rename(): void {
    renameSync(this.target.path, this.rotatedPath);
  }

  /** The name that a rotation gives the log. */
  get rotatedPath(): string {
    return join(this.target.directory, rotated);
  }

  /** The history is being written to it. */
  get temporaryPath(): string {
    return join(this.target.directory, ".0.log.history");
  }

  /** A writer of the history alone, with the log that it belongs to. */
  async historyWriter(queue: TurnQueue, maximumBytes?: number) {
    await this.recordConversion();
    rmSync(this.rotatedPath);
    const records = await this.records();
    const output = new LogOutput(records.get(containerId)!, records, this.log);
    await output.open({ create: true });
    const source = { path: this.docker.path, archiveLimitBytes: 1e6, emptiedAtBytes: undefined };
    const { history } = output.record;
    return { output, history: new HistoryWriter(output, history!, source, queue, this.log, maximumBytes) };
  }

  /** All files in the directory of the log, in order, the log itself last. None of them is a link. */
  get files(): Readonly<Record<string, string>> {
    const names = readdirSync(this.target.directory).sort();
    const ordered = [
      ...names.filter((name) => name !== "0.log"),
      ...names.filter((name) => name === "0.log"),
    ];
    return Object.fromEntries(
      ordered.map((name) => {
        const path = join(this.target.directory, name);
        assert.ok(lstatSync(path).isFile(), `${name} is a file`);
        return [name, readFileSync(path, "utf8")];
      }),
    );
  }

  get isPending(): boolean {
    const text = readFileSync(this.recordPath, "utf8");
    return (JSON.parse(text) as { history: unknown }).history !== null;
  }

  async untilWhole(): Promise<void> {
    await until("the history is written", () => !this.isPending);
  }

  assertWhole(): void {
    assert.equal(Object.values(this.files).join(""), this.docker.expected.join(""));
  }
}

/** Runs one small chunk for each call of `turn`. */
class ManualQueue extends TurnQueue {
  readonly #buffers = { input: Buffer.alloc(1024), output: Buffer.alloc(1024) };
  #turn: Turn | undefined;

  override add(turn: Turn): void {
    this.#turn = turn;
  }

  async turn(): Promise<boolean> {
    return (await this.#turn?.(this.#buffers)) === true;
  }
}

describe("--adopted-logs=convert", () => {
  test("the rotation makes a log file, and the history is in the rotated file", async () => {
    await using world = await World.open();
    world.write(50);
    const writers = await world.converted();
    assert.equal(writers.ownerOf(containerId), "shim");
    world.write(30);
    await world.untilWhole();
    await writers.observe(world.exited);
    const { docker } = world;
    assert.deepEqual(world.files, {
      [rotated]: docker.expected.slice(0, 50).join(""),
      "0.log": docker.expected.slice(50).join(""),
    });
    assert.equal(lstatSync(world.rotatedPath).mode & 0o7777, 0o640);
  });

  test("a rotation without a rename writes the history to a new file", async () => {
    await using world = await World.open();
    world.write(5);
    const writers = await world.writers();
    await writers.convert(world.running, world.target);
    world.write(5);
    await world.untilWhole();
    await writers.observe(world.exited);
    assert.match(Object.keys(world.files)[0] ?? "", /^0\.log\.\d{8}-\d{6}$/);
    world.assertWhole();
  });

  test("the history has the files that Docker rotated before; rotations during the conversion lose no line", async () => {
    await using world = await World.open();
    world.write(10);
    world.docker.rotate();
    world.write(10);
    world.rename();
    const writers = await world.writers();
    const converted = writers.convert(world.running, world.target);
    world.write(3);
    world.docker.rotate();
    world.write(10);
    await converted;
    await world.assertWholeAtEnd(writers);
  });

  const removeLink = (world: World): void => rmSync(world.rotatedPath);
  const kills: readonly (readonly [string, (world: World) => void])[] = [
    ["of dockershim and the kubelet before the link is removed", () => undefined],
    [
      "before the link is removed, and the kubelet renames it back",
      (world) => renameSync(world.rotatedPath, world.target.path),
    ],
    ["when the link is removed", removeLink],
    [
      "when half of the history is written",
      (world) => {
        removeLink(world);
        writeFileSync(world.temporaryPath, world.docker.expected[0] ?? "");
      },
    ],
    [
      "when the history is written and not recorded",
      (world) => {
        removeLink(world);
        writeFileSync(world.rotatedPath, world.docker.expected.slice(0, 20).join(""));
      },
    ],
  ];
  for (const [name, kill] of kills) {
    for (const status of ["running", "exited"] as const) {
      test(`a kill ${name}: every line once, of a container that is ${status} at the next start`, async () => {
        await using world = await World.open();
        world.write(20);
        await world.recordConversion();
        kill(world);
        world.write(20);
        const writers = await world.writers();
        await writers.observe(world[status]);
        world.write(status === "running" ? 20 : 0);
        await world.assertWholeAtEnd(writers);
        assert.deepEqual(Object.keys(world.files), [rotated, "0.log"]);
      });
    }
  }

  test("a kubelet that received no answer renames the file back over the log: every line once", async () => {
    await using world = await World.open();
    world.write(20);
    const first = await world.converted();
    await world.untilWhole();
    world.write(20);
    await until("the log is written", () => (world.files["0.log"] ?? "").split("\n").length === 21);
    await first.stop();
    renameSync(world.rotatedPath, world.target.path);
    const second = await world.writers();
    await second.observe(world.running);
    world.write(5);
    await second.observe(world.exited);
    world.assertWhole();
    assert.deepEqual(Object.keys(world.files), ["0.log"]);
  });

  test("a kill before the history is recorded, and the file is renamed back over the log: every line once", async () => {
    await using world = await World.open();
    world.write(20);
    world.rename();
    const first = await world.writers();
    const path = world.recordPath;
    const converted = await convertedRecord(world.running, world.target);
    await first.convert(world.running, world.target);
    await world.untilWhole();
    world.write(20);
    await until("the log is written", () => (world.files["0.log"] ?? "").split("\n").length === 21);
    await first.stop();
    const record = JSON.parse(readFileSync(path, "utf8")) as object;
    writeFileSync(path, JSON.stringify({ ...record, former: null, history: converted.history }));
    renameSync(world.rotatedPath, world.target.path);
    for (const status of ["running", "running", "exited"] as const) {
      const next = await world.writers();
      await next.observe(world[status]);
      world.write(status === "running" ? 5 : 0);
      const length = world.docker.expected.join("").length;
      await until("the log is continued", () => (world.files["0.log"] ?? "").length >= length);
      // A kill: a stop would record more.
      const recorded = readFileSync(path, "utf8");
      await next.stop();
      if (status === "running") writeFileSync(path, recorded);
    }
    world.assertWhole();
    assert.deepEqual(Object.keys(world.files), ["0.log"]);
  });

  test("the history of a container that has ended is written at a later start", async () => {
    await using world = await World.open();
    world.write(20);
    await world.recordConversion();
    const path = world.recordPath;
    const pending = JSON.parse(readFileSync(path, "utf8")) as { history: unknown };
    const first = await world.writers();
    await first.observe(world.exited);
    await first.stop();
    rmSync(world.rotatedPath, { force: true });
    const record = JSON.parse(readFileSync(path, "utf8")) as { finished: boolean };
    assert.equal(record.finished, true);
    writeFileSync(path, JSON.stringify({ ...record, history: pending.history }));
    const second = await world.writers();
    await second.observe(world.exited);
    await world.untilWhole();
    world.assertWhole();
  });

  test("the history is written when Docker's files can be read again", async () => {
    await using world = await World.open();
    world.write(20);
    await world.recordConversion();
    const directory = join(world.root, "containers");
    renameSync(directory, `${directory}.away`);
    const first = await world.writers();
    await first.observe(world.running);
    // A turn would follow at once.
    await sleep(50);
    await first.stop();
    assert.ok(world.isPending);
    renameSync(`${directory}.away`, directory);
    const second = await world.writers();
    await second.observe(world.running);
    await world.untilWhole();
    await second.stop();
    assert.equal(world.files[rotated], world.docker.expected.join(""));
  });

  test("a removal during the conversion leaves no incomplete file", async () => {
    await using world = await World.open();
    world.write(20);
    const writers = await world.converted();
    await writers.remove(containerId);
    assert.equal(existsSync(world.temporaryPath), false);
    assert.equal(existsSync(world.recordPath), false);
  });

  test("a very long history is cut, with a notice in its first line", async () => {
    await using world = await World.open();
    world.write(200);
    const { output, history } = await world.historyWriter(new TurnQueue(assert.ifError), 1000);
    history.start();
    await world.untilWhole();
    await history.stop();
    await output.close();
    const [first = "", ...lines] = (world.files[rotated] ?? "").trimEnd().split("\n");
    assert.match(first, / stderr F dockershim: older lines are left in the Docker Engine's file$/);
    assert.ok(lines.length > 5 && lines.length < 20);
    const expected = world.docker.expected.slice(-lines.length);
    assert.equal(lines.map((line) => `${line}\n`).join(""), expected.join(""));
  });

  test("a file that Docker drops during the conversion is replaced by a notice, and later files are written", async () => {
    await using world = await World.open();
    world.write(20);
    world.docker.rotate();
    world.write(20);
    world.docker.rotate();
    world.write(20);
    const queue = new ManualQueue(assert.ifError);
    const { output, history } = await world.historyWriter(queue);
    history.start();
    await queue.turn();
    // It is still open.
    rmSync(`${world.docker.path}.2`);
    world.docker.rotate();
    while (await queue.turn());
    await output.close();
    const lines = (world.files[rotated] ?? "").split(/(?<=\n)/);
    const notices = lines.splice(20, 1);
    const notice = / stderr F dockershim: log lines are missing here, .* before they were read\n$/;
    assert.match(notices[0] ?? "", notice);
    assert.equal(lines.join(""), world.docker.expected.join(""));
    assert.equal(world.isPending, false);
    assert.equal(world.log.linesAt("warn").length, 1);
  });

  test("a history that cannot be written is reported, and written at the next rotation", async () => {
    await using world = await World.open();
    world.write(20);
    world.rename();
    const writers = await world.writers();
    // A directory at the path of the file.
    mkdirSync(world.temporaryPath);
    await writers.convert(world.running, world.target);
    const reports = (): number => world.log.linesAt("warn").length;
    await until("the report", () => reports() > 0);
    rmSync(world.temporaryPath, { recursive: true });
    renameSync(world.target.path, `${world.target.path}.20260102-150406`);
    await writers.reopen(containerId);
    await world.assertWholeAtEnd(writers);
  });

  const foreign = `/var/lib/docker/containers/${idOf("ee")}/x-json.log`;
  const replace = (make: (path: string) => void) => (world: World) => {
    rmSync(world.target.path);
    make(world.target.path);
  };
  const refusals: readonly (readonly [string, (world: World) => void, RegExp])[] = [
    [
      "a link to the file of another container",
      replace((path) => symlinkSync(foreign, path)),
      /is not a link to the engine's file/,
    ],
    ["a file", replace((path) => writeFileSync(path, "foreign\n")), /is not a link to the engine's file/],
    ["a link whose file is gone", (world) => rmSync(world.docker.path), /is out of reach/],
  ];
  for (const [name, prepare, message] of refusals) {
    test(`${name} is left unchanged, and nothing is recorded`, async () => {
      await using world = await World.open();
      world.write(1);
      prepare(world);
      const before = lstatSync(world.target.path).ino;
      const writers = await world.writers();
      await assert.rejects(writers.convert(world.running, world.target), { kind: "precondition", message });
      assert.equal(lstatSync(world.target.path).ino, before);
      assert.equal(writers.ownerOf(containerId), undefined);
      assert.deepEqual(readdirSync(world.target.directory), ["0.log"]);
    });
  }

  test("with --adopted-logs=keep the link stays, and the error names the flag", async () => {
    await using world = await World.open();
    world.write(1);
    const writers = await world.writers("keep");
    await assert.rejects(writers.convert(world.running, world.target), {
      kind: "precondition",
      message: /only the engine can rotate it .* --adopted-logs=convert/,
    });
    assert.ok(lstatSync(world.target.path).isSymbolicLink());
    assert.equal(writers.ownerOf(containerId), undefined);
  });
});
