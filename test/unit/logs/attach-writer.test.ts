import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { describe, test } from "node:test";
import { ShimError } from "../../../src/lib/errors.js";
import { AttachWriter } from "../../../src/shim/logs/attach-writer.js";
import type { ProcessStreams, TakeOutput } from "../../../src/shim/ports/engine.js";
import { containerSnapshot, idOf } from "../../fakes/snapshots.js";
import { until } from "../../fakes/turns.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";
import { containerId, LogFiles } from "./log-bench.js";

const running = containerSnapshot(containerId, idOf("cd"), { state: { status: "running", running: true } });
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

class AttachBench extends LogFiles {
  declare writer: AttachWriter;

  static async open(engine: Engine): Promise<AttachBench> {
    const bench = new AttachBench(await temporaryDirectory());
    await bench.putRecord();
    await bench.openOutput();
    const times = { retry: 1, silence: 5 };
    bench.writer = new AttachWriter(bench.output, { engine, containerId, tty: false }, bench.log, times);
    return bench;
  }
}

describe("AttachWriter", () => {
  test("does not attach again to a container that has ended, and writes no notice", async () => {
    const engine = new Engine(["a line\n"]);
    await using bench = await AttachBench.open(engine);
    await bench.writer.attach(new AbortController().signal);
    bench.writer.start();
    await until("the condition", () => bench.written !== "");
    engine.container = exited;
    engine.end();
    await until("the condition", () => engine.inspected > 2 || engine.attached > 1);
    await bench.writer.finish();
    assert.equal(engine.attached, 1);
    assert.match(bench.written, /^\S+ stdout F a line\n$/);
  });

  test("attaches again to a container that still runs, and writes a notice of missing output", async () => {
    const engine = new Engine();
    await using bench = await AttachBench.open(engine);
    await bench.writer.attach(new AbortController().signal);
    bench.writer.start();
    engine.end();
    await until("the condition", () => bench.written !== "");
    assert.equal(engine.attached, 2);
    assert.match(bench.written, /output is missing here.*gap 1/);
  });

  test("finish() writes an incomplete line, and returns although the streams do not end", async () => {
    const engine = new Engine(["half a line"]);
    await using bench = await AttachBench.open(engine);
    await bench.writer.attach(new AbortController().signal);
    bench.writer.start();
    await bench.writer.finish();
    assert.ok(engine.closed > 0);
    assert.match(bench.written, /^\S+ stdout P half a line\n$/);
  });

  test("a line has the time of the clock that was set since the start of the program", async (t) => {
    const engine = new Engine(["a line\n"]);
    await using bench = await AttachBench.open(engine);
    const set = Date.parse("2036-01-02T15:04:05.123Z");
    t.mock.method(Date, "now", () => set);
    bench.writer.start();
    await until("the condition", () => bench.written.includes(" a line\n"));
    assert.match(bench.written, /^2036-01-02T15:04:05\.123\S+ stdout F a line$/m);
  });

  test("reports once that it cannot attach, however often it tries", async () => {
    const engine = new Engine();
    engine.attachError = new ShimError("unavailable", "no engine");
    await using bench = await AttachBench.open(engine);
    bench.writer.start();
    await until("the condition", () => engine.attached > 3);
    assert.equal(bench.log.lines.length, 1);
  });
});
