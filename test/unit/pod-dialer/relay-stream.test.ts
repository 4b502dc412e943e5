/** The stream with a process in memory, and with the real program on this machine. */
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createServer, type AddressInfo, type Socket } from "node:net";
import { PassThrough, type Readable } from "node:stream";
import { describe, test } from "node:test";
import fc from "fast-check";
import { ShimError } from "../../../src/lib/errors.js";
import { imageArchitecture, programPath } from "../../../src/shim/native/programs.js";
import { RelayStream } from "../../../src/shim/pod-dialer/relay-stream.js";
import type { ProcessStreams, TakeOutput } from "../../../src/shim/ports/engine.js";
import { textOf } from "../../fakes/fake-streaming.js";
import { rejectsWith } from "../../support/refusals.js";
import { until } from "../../support/wait.js";

function number(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value, 0);
  return bytes;
}

function frame(text: string): Buffer {
  return Buffer.concat([number(Buffer.byteLength(text)), Buffer.from(text)]);
}

/** A process whose output a test writes. */
class ScriptedProcess implements ProcessStreams {
  readonly input = new PassThrough();
  isClosed = false;
  #take: TakeOutput | undefined;
  #end!: () => void;

  readOutput(take: TakeOutput): Promise<void> {
    this.#take = take;
    return new Promise((resolve) => (this.#end = resolve));
  }

  say(bytes: Buffer): Promise<void> | undefined {
    return this.#take?.("stdout", bytes, true);
  }

  end(): void {
    this.#end();
  }

  close(): void {
    this.isClosed = true;
  }
}

async function connected(): Promise<{ readonly stream: RelayStream; readonly process: ScriptedProcess }> {
  const process = new ScriptedProcess();
  const stream = new RelayStream(process);
  stream.on("error", () => undefined);
  const opened = stream.open(1_000);
  void process.say(number(0));
  await opened;
  return { stream, process };
}

describe("RelayStream", () => {
  test("reads frames from chunks of any size", async () => {
    const sizes = fc.array(fc.integer({ min: 1, max: 20 }), { minLength: 1, maxLength: 20 });
    await fc.assert(
      fc.asyncProperty(fc.array(fc.stringMatching(/^[a-z]{1,30}$/)), sizes, async (texts, cuts) => {
        const { stream, process } = await connected();
        const bytes = Buffer.concat([...texts.map(frame), number(0)]);
        const read = textOf(stream);
        for (let start = 0, index = 0; start < bytes.length; index += 1) {
          const size = cuts[index % cuts.length] ?? 1;
          await process.say(bytes.subarray(start, start + size));
          start += size;
        }
        assert.equal(await read, texts.join(""));
        stream.destroy();
      }),
      { numRuns: 50 },
    );
  });

  test("lets all pieces of output go on when a slow reader does: the engine sends several at once", async () => {
    const { stream, process } = await connected();
    const text = "x".repeat(200_000);
    const pieces = [1, 2, 3].map(() => process.say(frame(text)));
    assert.ok(pieces.every((wait) => wait !== undefined));
    const read = textOf(stream);
    await Promise.all(pieces);
    await process.say(number(0));
    assert.equal(await read, text.repeat(3));
    stream.destroy();
  });

  test("writes frames, and a frame for the end", async () => {
    const { stream, process } = await connected();
    stream.write("one");
    stream.write("");
    stream.end("two");
    await once(stream, "finish");
    assert.deepEqual(readAll(process.input), Buffer.concat([frame("one"), frame("two"), number(0)]));
    // The other direction continues. After both ends the process is closed.
    void process.say(Buffer.concat([frame("late"), number(0)]));
    assert.equal(await textOf(stream), "late");
    assert.equal(process.isClosed, false);
    process.end();
    await until("it is closed", () => process.isClosed);
  });

  test("resets the connection by what it writes: Docker may lose the end of the input", async () => {
    const { stream, process } = await connected();
    stream.write("one");
    stream.destroy();
    assert.deepEqual(readAll(process.input), Buffer.concat([frame("one"), number(0xffff_ffff)]));
    assert.equal(process.isClosed, false);
    process.end();
    await until("it is closed", () => process.isClosed);
  });

  test("pauses the process for a slow reader", async () => {
    const { stream, process } = await connected();
    const wait = process.say(frame("x".repeat(100_000)));
    assert.ok(wait !== undefined);
    let isDone = false;
    void wait.then(() => (isDone = true));
    await new Promise(setImmediate);
    assert.equal(isDone, false);
    stream.resume();
    await wait;
    stream.destroy();
  });

  for (const { what, bytes, kind, message } of [
    { what: "a refusal", bytes: number(111), kind: "unavailable", message: /^connection refused$/ },
    { what: "no answer", bytes: number(110), kind: "timeout", message: /^no answer after 1s$/ },
  ] as const) {
    test(`open() throws ${what}`, async () => {
      const process = new ScriptedProcess();
      // As the engine's streams do when `take` throws.
      const readOutput = process.readOutput.bind(process);
      process.readOutput = (take) =>
        Promise.race([
          readOutput(() => undefined),
          new Promise<void>((_, reject) => {
            try {
              void take("stdout", bytes, true);
            } catch (error) {
              reject(ShimError.from(error));
            }
          }),
        ]);
      const stream = new RelayStream(process);
      stream.on("error", () => undefined);
      await rejectsWith(stream.open(1_000), kind, message);
      assert.equal(process.isClosed, true);
    });
  }

  test("an early exit of the process is a reset, before and after the connect", async () => {
    const process = new ScriptedProcess();
    const stream = new RelayStream(process);
    stream.on("error", () => undefined);
    const opened = stream.open(1_000);
    process.end();
    await rejectsWith(opened, "unavailable", /was reset/);
    const later = await connected();
    const failed = once(later.stream, "error");
    void later.process.say(frame("half"));
    later.process.end();
    const [error] = (await failed) as [unknown];
    assert.ok(error instanceof ShimError && error.kind === "unavailable");
  });

  for (const { what, bytes } of [
    { what: "data after its end", bytes: Buffer.concat([number(0), frame("x")]) },
    { what: "a length beyond all frames", bytes: number(0xffff_fff0) },
  ]) {
    test(`refuses ${what}`, async () => {
      const { stream, process } = await connected();
      assert.throws(() => process.say(bytes), { kind: "unknown" });
      stream.destroy();
    });
  }
});

const unfit = imageArchitecture(process.arch) === undefined && `no program for ${process.arch}`;

/** The program as a process of this machine, behind the same port as an exec. */
class LocalProcess implements ProcessStreams {
  constructor(readonly child: ChildProcess) {
    child.stdin?.on("error", () => undefined);
  }

  get input() {
    assert.ok(this.child.stdin);
    return this.child.stdin;
  }

  readOutput(take: TakeOutput): Promise<void> {
    const { stdout } = this.child;
    assert.ok(stdout);
    return new Promise((resolve, reject) => {
      stdout.on("data", (chunk: Buffer) => {
        try {
          const wait = take("stdout", chunk, true);
          if (wait === undefined) return;
          stdout.pause();
          void wait.then(() => stdout.resume());
        } catch (error) {
          reject(ShimError.from(error));
        }
      });
      stdout.once("end", resolve);
    });
  }

  /** Docker ends both streams of a process whose client is gone. */
  close(): void {
    this.child.stdin?.destroy();
    this.child.stdout?.destroy();
  }
}

describe("port-forward, the program", { skip: unfit, timeout: 60_000 }, () => {
  async function open(onConnection: (socket: Socket) => void) {
    const server = createServer({ allowHalfOpen: true }, onConnection).listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const child = spawn(programPath("port-forward", process.arch, ""), [String(port)], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    const stream = new RelayStream(new LocalProcess(child));
    stream.on("error", () => undefined);
    await stream.open(1_000);
    return { stream, child, server, exited: once(child, "exit") as Promise<[number | null]> };
  }

  test("carries an answer that comes after the client's end, and ends with 0", async () => {
    const { stream, server, exited } = await open((socket) => {
      void textOf(socket).then((text) => setTimeout(() => socket.end(`got ${String(text.length)}`), 300));
    });
    stream.end("x".repeat(3_000_000));
    assert.equal(await textOf(stream), "got 3000000");
    assert.deepEqual((await exited)[0], 0);
    server.close();
  });

  test("passes the server's end on at once, and the other direction continues", async () => {
    let received: Promise<string> | undefined;
    const { stream, server, exited } = await open((socket) => {
      socket.end("bye");
      received = textOf(socket);
    });
    assert.equal(await textOf(stream), "bye");
    stream.end("still here");
    assert.equal(await received, "still here");
    assert.deepEqual((await exited)[0], 0);
    server.close();
  });

  test("sends written data to the server while its answer is not read", async () => {
    const counts = { received: 0 };
    const { stream, child, server, exited } = await open((socket) => {
      socket.on("error", () => undefined);
      socket.write(Buffer.alloc(4_000_000));
      socket.on("data", (chunk: Buffer) => (counts.received += chunk.length));
    });
    for (let index = 0; index < 50; index += 1) stream.write(Buffer.alloc(100_000));
    await until("the server has all of it", () => counts.received === 5_000_000);
    stream.destroy();
    await exited;
    assert.equal(child.exitCode, 1);
    server.close();
  });

  test("ends when its client is gone, also while the server does not read", async () => {
    const sockets: Socket[] = [];
    const { stream, server, exited } = await open((socket) => {
      socket.on("error", () => undefined);
      sockets.push(socket.pause());
    });
    stream.write(Buffer.alloc(20_000_000));
    await new Promise((resolve) => setTimeout(resolve, 100));
    stream.destroy();
    assert.deepEqual((await exited)[0], 1);
    sockets[0]?.destroy();
    server.close();
  });

  test("resets the connection when its client is gone", async () => {
    const outcome: Promise<unknown>[] = [];
    const { stream, server, exited } = await open((socket) => {
      // Read first: libuv takes a reset right behind data for an end.
      socket.once("data", () => outcome.push(new Promise((resolve) => socket.once("error", resolve))));
    });
    stream.write("hello");
    await until("the server has the data", () => outcome.length === 1);
    stream.destroy();
    await exited;
    assert.equal(((await outcome[0]) as NodeJS.ErrnoException).code, "ECONNRESET");
    server.close();
  });

  test("ends without a frame of the end when the server resets", async () => {
    const { stream, server, exited } = await open((socket) => {
      socket.on("error", () => undefined);
      socket.once("data", () => socket.resetAndDestroy());
    });
    stream.write("hello");
    const [error] = (await once(stream, "error")) as [Error];
    assert.match(error.message, /was reset/);
    await exited;
    server.close();
  });

  test("refuses arguments that name no port, and more than one", async () => {
    for (const argument of [[], ["0"], ["65536"], ["80x"], ["-1"], ["80", "81"]]) {
      const child = spawn(programPath("port-forward", process.arch, ""), argument, { stdio: "ignore" });
      assert.deepEqual(await once(child, "exit"), [2, null], argument.join());
    }
  });
});

/** What is there; from Node.js 26 on, one read() is one chunk of it. */
function readAll(stream: Readable): Buffer {
  const parts: Buffer[] = [];
  for (let part; (part = stream.read() as Buffer | null) !== null;) parts.push(part);
  return Buffer.concat(parts);
}
