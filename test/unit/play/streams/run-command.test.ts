import assert from "node:assert/strict";
import { createServer, type AddressInfo } from "node:net";
import { PassThrough, Readable, Writable } from "node:stream";
import { setTimeout as pause } from "node:timers/promises";
import { text } from "node:stream/consumers";
import { describe, test } from "node:test";
import { dialFromHere } from "../../../../src/play/cri/dial.js";
import { exitCodeOf, runCommand, type TerminalSize } from "../../../../src/play/streams/run-command.js";
import { ShimError } from "../../../../src/lib/errors.js";
import { dataFrameHeader, resetStatus, rstStreamFrame } from "../../../../src/lib/spdy/frames.js";
import { cat, fakeCommand, sleepForever } from "../../../fakes/streaming-sessions.js";
import { until } from "../../../fakes/turns.js";
import { startStreamingBed } from "../../../support/streaming-bed.js";

const never = new AbortController().signal;

function run(
  url: string,
  streams: Parameters<typeof runCommand>[1],
  { tty = false, signal = never }: { readonly tty?: boolean; readonly signal?: AbortSignal } = {},
): Promise<number> {
  return runCommand({ url, tty }, streams, dialFromHere, signal);
}

describe("runCommand()", () => {
  test("sends standard input with its end, and receives all of the output", async () => {
    await using bed = await startStreamingBed();
    const input = Buffer.alloc(3_000_000, "0123456789");
    const stdout = new PassThrough({ highWaterMark: 1 << 26 });
    const url = bed.server.offer(fakeCommand(cat(), { stderr: false }));
    assert.equal(await run(url, { stdin: Readable.from([input]), stdout }), 0);
    assert.equal((await text(stdout.end())).length, input.length);
    await bed.empty();
  });

  test("takes streams that the server resets after the status for ended", async () => {
    // As containerd may: the status, then a reset of each stream in place of its end.
    const server = createServer((socket) => {
      socket.once("data", () => {
        const accepted = [
          "Connection: Upgrade",
          "Upgrade: SPDY/3.1",
          "X-Stream-Protocol-Version: v4.channel.k8s.io",
        ];
        socket.write(`HTTP/1.1 101 Switching Protocols\r\n${accepted.join("\r\n")}\r\n\r\n`);
        socket.once("data", () => {
          const status = Buffer.from('{"status":"Success"}');
          const output = Buffer.from("out");
          socket.write(Buffer.concat([dataFrameHeader(3, output.length, { fin: false }), output]));
          socket.write(Buffer.concat([dataFrameHeader(1, status.length, { fin: false }), status]));
          // Apart, so that the status is read before.
          setImmediate(() => {
            for (const id of [1, 3]) socket.write(rstStreamFrame(id, resetStatus.cancel));
          });
        });
      });
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const stdout = new PassThrough();
    assert.equal(await run(`http://127.0.0.1:${port}/exec/x`, { stdout }), 0);
    assert.equal(await text(stdout.end()), "out");
    server.close();
  });

  test("keeps standard output and standard error apart, and returns the exit code", async () => {
    await using bed = await startStreamingBed();
    const command = fakeCommand(
      ({ stdout, stderr }) => {
        stdout?.write("out");
        stderr?.write("err");
        return Promise.resolve(3);
      },
      { stdin: false },
    );
    const [stdout, stderr] = [new PassThrough(), new PassThrough()];
    // A URL without a scheme, as cri-dockerd answers it.
    assert.equal(await run(bed.server.offer(command).replace(/^http:/, ""), { stdout, stderr }), 3);
    assert.deepEqual([await text(stdout.end()), await text(stderr.end())], ["out", "err"]);
    for (const other of ["/exec/token", "ftp://127.0.0.1/x", "127.0.0.1:1/x"])
      await assert.rejects(run(other, { stdout: new PassThrough() }), /answered no URL of HTTP/, other);
  });

  test("waits for a slow reader of the output, which loses nothing", async () => {
    await using bed = await startStreamingBed();
    const size = 2_000_000;
    const session = fakeCommand(
      async ({ stdout }) => {
        stdout?.write(Buffer.alloc(size));
        await Promise.resolve();
        return 0;
      },
      { stdin: false, stderr: false },
    );
    let received = 0;
    const stdout = new Writable({
      highWaterMark: 1,
      write(chunk: Buffer, _encoding, done) {
        received += chunk.length;
        setTimeout(done, 1);
      },
    });
    assert.equal(await run(bed.server.offer(session), { stdout }), 0);
    assert.equal(received, size);
  });

  test("tells the size of a terminal at once and after each change, until the command ends", async () => {
    await using bed = await startStreamingBed();
    const session = fakeCommand(
      async () => {
        await until("two sizes", () => session.sizes.length === 2);
        return 0;
      },
      { stdin: false, stderr: false, tty: true },
    );
    let isWatched = true;
    const sizes = (changed: (size: TerminalSize) => void): (() => void) => {
      changed({ width: 80, height: 24 });
      void pause(50).then(() => changed({ width: 132, height: 50 }));
      return () => (isWatched = false);
    };
    const url = bed.server.offer(session);
    assert.equal(await run(url, { stdout: new PassThrough(), sizes }, { tty: true }), 0);
    assert.deepEqual(session.sizes, [
      { columns: 80, rows: 24 },
      { columns: 132, rows: 50 },
    ]);
    assert.equal(isWatched, false);
  });

  test("ends with its signal, and disconnects", async () => {
    await using bed = await startStreamingBed();
    const controller = new AbortController();
    const url = bed.server.offer(fakeCommand(sleepForever, { stdin: false, stderr: false }));
    const running = run(url, { stdout: new PassThrough() }, { signal: controller.signal });
    await pause(50);
    controller.abort(new ShimError("cancelled", "interrupted"));
    await assert.rejects(running, /interrupted/);
    await bed.empty();
  });

  test("rejects when the connection ends without a status", async () => {
    await using bed = await startStreamingBed();
    const url = bed.server.offer(fakeCommand(sleepForever, { stdin: false, stderr: false }));
    const running = run(url, { stdout: new PassThrough() });
    const rejected = assert.rejects(running);
    await pause(50);
    await bed.server.stop(0);
    await rejected;
  });

  test("rejects with what the server says, and where nothing listens", async () => {
    await using bed = await startStreamingBed();
    const failing = fakeCommand(() => Promise.reject(new ShimError("notFound", "no such program: frob")), {
      stdin: false,
      stderr: false,
    });
    const stdout = new PassThrough();
    await assert.rejects(run(bed.server.offer(failing), { stdout }), /no such program: frob/);
    const unknown = bed.server.offer(fakeCommand(cat())).replace(/[^/]+$/, "0000000000");
    await assert.rejects(run(unknown, {}), { kind: "unsupported", message: /answered 404/ });
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    await new Promise((resolve) => server.close(resolve));
    await assert.rejects(run(`http://127.0.0.1:${port}/exec/x`, {}), /connection refused/);
    await assert.rejects(run("tcp://127.0.0.1:1", {}), /no URL of HTTP/);
  });
});

for (const [status, message] of [
  ["", /without a status/],
  ["gone\u001b[2J", /gone\\u\{1b\}\[2J/],
  ['{"status":"Failure","reason":"InternalError","message":"it broke"}', /^it broke$/],
  [
    '{"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"x"}]}}',
    /x/,
  ],
] as const)
  test(`the status ${JSON.stringify(status)} is an error`, () =>
    assert.throws(
      () => exitCodeOf(status),
      ({ message: said }: Error) => message.test(said),
    ));
