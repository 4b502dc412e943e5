import assert from "node:assert/strict";
import { once } from "node:events";
import { Readable, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { describe, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { isKind } from "../../../src/lib/errors.js";
import { whileConnected } from "../../../src/shim/streaming/client-connection.js";
import { cat, connectedPair, fakeCommand, fakePod, sleepForever } from "../../fakes/streaming-sessions.js";
import { until, withResolvers } from "../../fakes/turns.js";
import { startStreamingBed } from "../../support/streaming-bed.js";
import {
  commandProtocols,
  openSpdy,
  openWebSocket,
  sendRaw,
  spdyRequest,
} from "../../support/streaming-client.js";

/** A client of a command with stdin and stdout; `unsent` and `received` count bytes of input and output. */
async function overSpdy(url: string) {
  const client = await openSpdy(url);
  const error = client.open({ streamType: "error" });
  const stdin = client.open({ streamType: "stdin" });
  const stdout = client.open({ streamType: "stdout" });
  let received = 0;
  stdout.received.on("data", (chunk: Buffer) => (received += chunk.length));
  return {
    status: error.text(),
    send: (input: Buffer) => stdin.write(input),
    endInput: () => stdin.end(),
    get unsent() {
      return client.socket.writableLength;
    },
    get received() {
      return received;
    },
    pause: () => client.socket.pause(),
    resume: () => client.socket.resume(),
    leave: () => client.socket.destroy(),
  };
}

async function overWebSocket(url: string) {
  const client = await openWebSocket(url, "v5.channel.k8s.io");
  return {
    status: client.closed.then(() => client.channel(3)),
    send: (input: Buffer) => client.ws.send(Buffer.concat([Buffer.of(0), input])),
    endInput: () => client.ws.send(Buffer.of(255, 0)),
    get unsent() {
      return client.ws.bufferedAmount;
    },
    get received() {
      const output = client.messages.filter((message) => message[0] === 1);
      return output.reduce((sum, { length }) => sum + length - 1, 0);
    },
    pause: () => client.ws.pause(),
    resume: () => client.ws.resume(),
    leave: () => client.ws.terminate(),
  };
}

/** More than all buffers of the way together, sockets included. */
const flood = 40 * 1024 * 1024;
const held = 20 * 1024 * 1024;

/** Waits until a number has stopped to change. */
async function settled(value: () => number): Promise<void> {
  for (let before = -1; before !== value();) {
    before = value();
    await pause(150);
  }
}

/** A command that reads its input when `read` is fulfilled, and has exit code 0 when it got all of the flood. */
function lazy(read: Promise<unknown>): ReturnType<typeof fakeCommand> {
  return fakeCommand(
    async ({ stdin }, signal) => {
      await Promise.race([read, once(signal, "abort")]);
      let bytes = 0;
      const write = (chunk: Buffer, _encoding: BufferEncoding, done: () => void): void => {
        bytes += chunk.length;
        done();
      };
      await pipeline(stdin!, new Writable({ write }), { signal });
      return bytes === flood ? 0 : 1;
    },
    { stderr: false },
  );
}

for (const [transport, open] of Object.entries({ SPDY: overSpdy, WebSocket: overWebSocket })) {
  describe(`a command over ${transport}`, () => {
    test("is ended when it is idle, with a status for the client", async () => {
      await using bed = await startStreamingBed({ idleTimeoutMs: 60 });
      const session = fakeCommand(sleepForever, { stderr: false });
      const { status } = await open(bed.server.offer(session));
      assert.match(await status, /error executing command in container: closed after 60ms without traffic/);
      await bed.empty();
      assert.ok(isKind(session.abortedBy, "timeout"));
    });

    test("is ended when the client disconnects", async () => {
      await using bed = await startStreamingBed();
      const session = fakeCommand(sleepForever, { stderr: false });
      const client = await open(bed.server.offer(session));
      await until("it runs", () => session.running === 1);
      client.leave();
      await bed.empty();
      assert.ok(isKind(session.abortedBy, "cancelled"));
    });

    test("sends a client that does not read no more than buffers hold, and all of it once it reads", async () => {
      await using bed = await startStreamingBed();
      let taken = 0;
      const chunk = Buffer.alloc(64 * 1024);
      const source = new Readable({
        read() {
          taken += chunk.length;
          this.push(taken > flood ? null : chunk);
        },
      });
      const session = fakeCommand(
        async ({ stdout }) => {
          await pipeline(source, stdout!);
          return 0;
        },
        { stderr: false },
      );
      const client = await open(bed.server.offer(session));
      client.pause();
      await settled(() => taken);
      assert.ok(taken < held, `${String(taken)} bytes taken`);
      client.resume();
      assert.match(await client.status, /Success/);
      await bed.empty();
      assert.equal(client.received, flood);
    });

    test("that does not read is sent no more than buffers hold, and all of it once it reads", async () => {
      await using bed = await startStreamingBed();
      const { promise, resolve: start } = withResolvers();
      const session = lazy(promise);
      const client = await open(bed.server.offer(session));
      for (let sent = 0; sent < flood; sent += 1024 * 1024) client.send(Buffer.alloc(1024 * 1024));
      client.endInput();
      await settled(() => client.unsent);
      assert.ok(client.unsent > flood - held, `${String(client.unsent)} bytes left`);
      start();
      assert.match(await client.status, /Success/);
    });

    test("that does not read is ended when the client disconnects", async () => {
      await using bed = await startStreamingBed();
      const session = lazy(new Promise(() => undefined));
      const client = await open(bed.server.offer(session));
      for (let sent = 0; sent < 4; sent += 1) client.send(Buffer.alloc(1024 * 1024));
      await settled(() => client.unsent);
      client.leave();
      await bed.empty();
      assert.equal(session.running, 0);
    });
  });
}

describe("an idle session", () => {
  test("is ended although the client sends pings", async () => {
    await using bed = await startStreamingBed({ idleTimeoutMs: 60 });
    const client = await openWebSocket(bed.server.offer(fakeCommand(sleepForever)), "v5.channel.k8s.io");
    const pings = setInterval(() => client.ws.readyState === client.ws.OPEN && client.ws.ping(), 10);
    await client.closed;
    clearInterval(pings);
  });

  test("is ended when it forwards ports, too", async () => {
    await using bed = await startStreamingBed({ idleTimeoutMs: 60 });
    const client = await openSpdy(bed.server.offer(fakePod(() => assert.fail())), ["portforward.k8s.io"]);
    await client.closed;
    await bed.empty();
  });
});

test("a session that ignores its signal is ended by its streams, after the grace period", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let destroyed = false;
  const { promise: work, resolve: finish } = withResolvers();
  const connection = {
    closed: new Promise<void>(() => undefined),
    failure: undefined,
    lastActivityMs: 0,
    destroy() {
      destroyed = true;
      finish();
    },
  };
  const stop = new AbortController();
  const ended = whileConnected(connection, { idleTimeoutMs: 0, stop: stop.signal }, () => work);
  stop.abort();
  t.mock.timers.tick(9_999);
  assert.equal(destroyed, false);
  t.mock.timers.tick(1);
  assert.equal(destroyed, true);
  await ended;
});

test("sessions whose clients disconnect at random points leave no session, no connection and no token", async () => {
  await using bed = await startStreamingBed({ streamCreationTimeoutMs: 200 });
  const commands = Array.from({ length: 60 }, () => fakeCommand(cat(), { stderr: false }));
  const pods = Array.from({ length: 40 }, () =>
    fakePod(async () => {
      const [ours, theirs] = connectedPair();
      theirs.pipe(theirs);
      return ours;
    }),
  );
  let seed = 7;
  const random = (below: number): number => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
    return Math.floor((seed / 2_147_483_648) * below);
  };
  const leave = async (steps: readonly (() => unknown)[], end: () => unknown): Promise<void> => {
    for (const step of steps.slice(0, random(steps.length + 1))) {
      step();
      if (random(2) === 0) await pause(random(4));
    }
    end();
  };
  const viaSpdy = async (url: string, protocols?: readonly string[]): Promise<void> => {
    const client = await openSpdy(url, protocols);
    const port = { port: "80", requestID: "1" };
    const types = protocols === undefined ? ["error", "stdout", "stdin"] : ["error", "data"];
    const input = 2 * types.length - 1;
    await leave(
      [
        ...types.map((streamType) => () => client.open({ streamType, ...port })),
        () => client.streams.get(input)!.write("x".repeat(random(100_000))),
        () => client.streams.get(input)!.end(),
      ],
      () => (random(2) === 0 ? client.socket.destroy() : client.socket.end()),
    );
  };
  const viaWebSocket = async (url: string): Promise<void> => {
    const { ws } = await openWebSocket(url, "v5.channel.k8s.io");
    await leave([() => ws.send(Buffer.alloc(random(100_000))), () => ws.send(Buffer.from([255, 0]))], () =>
      random(2) === 0 ? ws.terminate() : ws.close(),
    );
  };
  const half = async (url: string): Promise<void> => {
    const lines = spdyRequest(url, commandProtocols).slice(0, 3);
    (await sendRaw(url, lines).catch(() => undefined))?.socket.destroy();
  };
  await Promise.all([
    ...commands.map((session, index) =>
      [viaSpdy, viaWebSocket, viaSpdy, viaWebSocket, half][index % 5]!(bed.server.offer(session)),
    ),
    ...pods.map((pod) => viaSpdy(bed.server.offer(pod), ["portforward.k8s.io"])),
  ]);
  await bed.empty();
  assert.ok(commands.every(({ running }) => running === 0));
  await until("the pods' connections ended", () => pods.every(({ open }) => open.size === 0));
  assert.equal(bed.server.offers, 0);
});
