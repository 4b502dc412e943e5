import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { describe, test } from "node:test";
import { ShimError } from "../../../src/shim/lib/errors.js";
import { AttachWriter } from "../../../src/shim/logs/attach-writer.js";
import { LogOutput } from "../../../src/shim/logs/sink/log-output.js";
import { LogRecords, newRecord } from "../../../src/shim/logs/log-record.js";
import type { ProcessStreams, TakeOutput } from "../../../src/shim/ports/engine.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { containerSnapshot, idOf } from "../../fakes/snapshots.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

const containerId = idOf("ab");
const running = containerSnapshot(containerId, idOf("cd"), {
  state: { status: "running", running: true },
});
const exited = containerSnapshot(containerId, idOf("cd"), { state: { status: "exited", running: false } });

/** An engine whose streams end when the container does, and never when it had ended before. */
class Engine {
  container = running;
  attached = 0;
  inspected = 0;
  closed = 0;
  attachError: Error | undefined;
  end: () => void = () => undefined;

  constructor(private readonly output: readonly string[] = []) {}

  async inspectContainer(): Promise<typeof running> {
    this.inspected += 1;
    return this.container;
  }

  async attachContainer(_id: string, _options: unknown, signal: AbortSignal): Promise<ProcessStreams> {
    this.attached += 1;
    if (this.attachError !== undefined) throw this.attachError;
    let fail: (error: Error) => void = () => undefined;
    const ended = new Promise<void>((resolve, reject) => {
      this.end = resolve;
      fail = reject;
    });
    ended.catch(() => undefined);
    signal.addEventListener("abort", () => {
      fail(ShimError.from(signal.reason));
    });
    return {
      input: new PassThrough(),
      readOutput: async (take: TakeOutput) => {
        for (const text of this.output) await take("stdout", Buffer.from(text), false);
        await ended;
      },
      close: () => {
        this.closed += 1;
        fail(new ShimError("cancelled", "closed"));
      },
    };
  }
}

async function withWriter(
  engine: Engine,
  work: (writer: AttachWriter, written: () => string, log: ReturnType<typeof recordingLog>) => Promise<void>,
): Promise<void> {
  await using directory = await temporaryDirectory();
  const log = recordingLog();
  mkdirSync(join(directory.path, "pod"));
  const records = await LogRecords.open(
    join(directory.path, "logs"),
    log,
    join(directory.path, "quarantine"),
  );
  const path = join(directory.path, "pod", "0.log");
  await records.put(newRecord(containerId, { directory: join(directory.path, "pod"), path }));
  const output = new LogOutput(records.get(containerId) ?? assert.fail(), records, log);
  await output.open({ create: true });
  const times = { retry: 1, silence: 5 };
  const writer = new AttachWriter(output, { engine, containerId, tty: false }, log, times);
  try {
    await work(writer, () => readFileSync(path, "utf8"), log);
  } finally {
    await writer.close();
  }
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 1));
}

describe("AttachWriter", () => {
  test("does not attach again to a container that has ended, and says of no output that it is missing", async () => {
    const engine = new Engine(["a line\n"]);
    await withWriter(engine, async (writer, written) => {
      await writer.attach(new AbortController().signal);
      writer.start();
      await until(() => written() !== "");
      engine.container = exited;
      engine.end();
      await until(() => engine.inspected > 2 || engine.attached > 1);
      await writer.finish();
      assert.equal(engine.attached, 1);
      assert.match(written(), /^\S+ stdout F a line\n$/);
    });
  });

  test("attaches again to one that still runs, and says that output is missing", async () => {
    const engine = new Engine();
    await withWriter(engine, async (writer, written) => {
      await writer.attach(new AbortController().signal);
      writer.start();
      engine.end();
      await until(() => written() !== "");
      assert.equal(engine.attached, 2);
      assert.match(written(), /output is missing here.*gap 1/);
    });
  });

  test("finish() ends although the streams do not, with the line that has no end", async () => {
    const engine = new Engine(["half a line"]);
    await withWriter(engine, async (writer, written) => {
      await writer.attach(new AbortController().signal);
      writer.start();
      await writer.finish();
      assert.ok(engine.closed > 0);
      assert.match(written(), /^\S+ stdout P half a line\n$/);
    });
  });

  test("a line has the time of the clock that was set since the start of the program", async (t) => {
    const engine = new Engine(["a line\n"]);
    await withWriter(engine, async (writer, written) => {
      const set = Date.parse("2036-01-02T15:04:05.123Z");
      t.mock.method(Date, "now", () => set);
      writer.start();
      await until(() => written().includes(" a line\n"));
      assert.match(written(), /^2036-01-02T15:04:05\.123\S+ stdout F a line$/m);
    });
  });

  test("reports once that it cannot attach, however often it tries", async () => {
    const engine = new Engine();
    engine.attachError = new ShimError("unavailable", "no engine");
    await withWriter(engine, async (writer, _written, log) => {
      writer.start();
      await until(() => engine.attached > 3);
      assert.equal(log.lines.length, 1);
    });
  });
});
