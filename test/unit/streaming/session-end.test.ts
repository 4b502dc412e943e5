import assert from "node:assert/strict";
import { once } from "node:events";
import { Readable, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { describe, mock, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { isKind } from "../../../src/lib/errors.js";
import { whileConnected } from "../../../src/shim/streaming/client-connection.js";
import { cat, connectedPair, fakeCommand, fakePod, sleepForever } from "../../fakes/streaming-sessions.js";
import { until } from "../../fakes/turns.js";
import { startStreamingBed } from "../../support/streaming-bed.js";
import {
  openSpdy,
  openWebSocket,
  sendRaw,
  spdyRequest,
  commandProtocols,
} from "../../support/streaming-client.js";

describe("an idle session", () => {
  test("is ended, with a status for the client, over SPDY", async () => {
    await using bed = await startStreamingBed({ idleTimeoutMs: 60 });
    const session = fakeCommand(sleepForever, { stdin: false, stderr: false });
    const client = await openSpdy(bed.server.offer(session));
    const error = client.open({ streamType: "error" });
    client.open({ streamType: "stdout" });
    assert.match(
      await error.text(),
      /error executing command in container: closed after 60ms without traffic/,
    );
    await bed.empty();
    assert.ok(isKind(session.abortedBy, "timeout"));
  });

  test("is ended, with a status for the client, over WebSocket", async () => {
    await using bed = await startStreamingBed({ idleTimeoutMs: 60 });
    const client = await openWebSocket(bed.server.offer(fakeCommand(sleepForever)), "v5.channel.k8s.io");
    await client.closed;
    assert.match(client.channel(3), /closed after 60ms without traffic/);
    await bed.empty();
  });

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

/** A source that counts its bytes. */
function countedSource(bytes: number): { readable: Readable; taken: () => number } {
  let taken = 0;
  const chunk = Buffer.alloc(64 * 1024);
  const readable = new Readable({
    read() {
      taken += chunk.length;
      this.push(taken > bytes ? null : chunk);
    },
  });
  return { readable, taken: () => taken };
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

describe("a client that does not read", () => {
  test("is sent no more than buffers hold, over SPDY, and all of it once it reads", async () => {
    await using bed = await startStreamingBed();
    const source = countedSource(flood);
    const session = fakeCommand(
      async ({ stdout }) => {
        await pipeline(source.readable, stdout!);
        return 0;
      },
      { stdin: false, stderr: false },
    );
    const client = await openSpdy(bed.server.offer(session));
    client.socket.pause();
    client.open({ streamType: "error" });
    const stdout = client.open({ streamType: "stdout" });
    await settled(source.taken);
    assert.ok(source.taken() < held, `${String(source.taken())} bytes taken`);
    let received = 0;
    stdout.received.on("data", (chunk: Buffer) => (received += chunk.length));
    client.socket.resume();
    await client.closed;
    assert.equal(received, flood);
    await bed.empty();
  });

  test("is sent no more than buffers hold, over WebSocket, and all of it once it reads", async () => {
    await using bed = await startStreamingBed();
    const source = countedSource(flood);
    const session = fakeCommand(async ({ stdout }) => {
      await pipeline(source.readable, stdout!);
      return 0;
    });
    const client = await openWebSocket(bed.server.offer(session), "v5.channel.k8s.io");
    client.ws.pause();
    await settled(source.taken);
    assert.ok(source.taken() < held, `${String(source.taken())} bytes taken`);
    client.ws.resume();
    await client.closed;
    const received = client.messages
      .filter((message) => message[0] === 1)
      .reduce((sum, { length }) => sum + length - 1, 0);
    assert.equal(received, flood);
    assert.match(client.channel(3), /Success/);
    await bed.empty();
  });
});

describe("a command that does not read", () => {
  const lazy = (read: Promise<unknown>): ReturnType<typeof fakeCommand> =>
    fakeCommand(
      async ({ stdin }, signal) => {
        await Promise.race([read, once(signal, "abort")]);
        let bytes = 0;
        const sink = new Writable({
          write(chunk: Buffer, _encoding, done) {
            bytes += chunk.length;
            done();
          },
        });
        await pipeline(stdin!, sink, { signal });
        return bytes === flood ? 0 : 1;
      },
      { stderr: false },
    );

  test("is sent no more than buffers hold, over SPDY, and all of it once it reads", async () => {
    await using bed = await startStreamingBed();
    let start!: () => void;
    const session = lazy(new Promise<void>((resolve) => (start = resolve)));
    const client = await openSpdy(bed.server.offer(session));
    const error = client.open({ streamType: "error" });
    const stdin = client.open({ streamType: "stdin" });
    client.open({ streamType: "stdout" });
    for (let sent = 0; sent < flood; sent += 1024 * 1024) stdin.write(Buffer.alloc(1024 * 1024));
    stdin.end();
    await settled(() => client.socket.writableLength);
    assert.ok(
      client.socket.writableLength > flood - held,
      `${String(client.socket.writableLength)} bytes left`,
    );
    start();
    assert.match(await error.text(), /Success/);
  });

  test("is sent no more than buffers hold, over WebSocket, and all of it once it reads", async () => {
    await using bed = await startStreamingBed();
    let start!: () => void;
    const session = lazy(new Promise<void>((resolve) => (start = resolve)));
    const client = await openWebSocket(bed.server.offer(session), "v5.channel.k8s.io");
    for (let sent = 0; sent < flood; sent += 1024 * 1024) client.ws.send(Buffer.alloc(1024 * 1024 + 1));
    client.ws.send(Buffer.from([255, 0]));
    await settled(() => client.ws.bufferedAmount);
    assert.ok(client.ws.bufferedAmount > flood - held, `${String(client.ws.bufferedAmount)} bytes left`);
    start();
    await client.closed;
    assert.match(client.channel(3), /Success/);
  });

  test("is ended when the client disconnects while it is not read, over WebSocket", async () => {
    await using bed = await startStreamingBed();
    const session = lazy(new Promise(() => undefined));
    const client = await openWebSocket(bed.server.offer(session), "v5.channel.k8s.io");
    for (let sent = 0; sent < 4; sent += 1) client.ws.send(Buffer.alloc(1024 * 1024 + 1));
    await settled(() => client.ws.bufferedAmount);
    client.ws.terminate();
    await bed.empty();
    assert.equal(session.running, 0);
  });
});

describe("a session that ignores its signal", () => {
  test("is ended by its streams, after the grace period", async () => {
    mock.timers.enable({ apis: ["setTimeout"] });
    try {
      let destroyed = false;
      let finish!: () => void;
      const work = new Promise<void>((resolve) => (finish = resolve));
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
      mock.timers.tick(9_999);
      assert.equal(destroyed, false);
      mock.timers.tick(1);
      await ended;
    } finally {
      mock.timers.reset();
    }
  });
});

describe("sessions whose clients disconnect at random points", () => {
  test("leave no session, no connection and no token", async () => {
    await using bed = await startStreamingBed({ streamCreationTimeoutMs: 200 });
    const commands = Array.from({ length: 60 }, () => fakeCommand(cat()));
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
    const viaSpdy = async (url: string): Promise<void> => {
      if (random(8) === 0) {
        (
          await sendRaw(url, spdyRequest(url, commandProtocols).slice(0, 3)).catch(() => undefined)
        )?.socket.destroy();
        return;
      }
      const client = await openSpdy(url);
      const stdin = (): unknown => client.streams.get(3);
      await leave(
        [
          () => client.open({ streamType: "error" }),
          () => client.open({ streamType: "stdin" }),
          () => client.open({ streamType: "stdout" }),
          () => client.open({ streamType: "stderr" }),
          () => (stdin() as { write(data: string): void }).write("x".repeat(random(100_000))),
          () => (stdin() as { end(): void }).end(),
        ],
        () => (random(2) === 0 ? client.socket.destroy() : client.socket.end()),
      );
    };
    const viaWebSocket = async (url: string): Promise<void> => {
      const client = await openWebSocket(url, "v5.channel.k8s.io");
      await leave(
        [() => client.ws.send(Buffer.alloc(random(100_000))), () => client.ws.send(Buffer.from([255, 0]))],
        () => (random(2) === 0 ? client.ws.terminate() : client.ws.close()),
      );
    };
    const forwarding = async (url: string): Promise<void> => {
      const client = await openSpdy(url, ["portforward.k8s.io"]);
      await leave(
        [
          () => client.open({ streamType: "error", port: "80", requestID: "1" }),
          () => client.open({ streamType: "data", port: "80", requestID: "1" }),
          () => client.streams.get(3)!.write("x".repeat(random(100_000))),
          () => client.streams.get(3)!.end(),
        ],
        () => (random(2) === 0 ? client.socket.destroy() : client.socket.end()),
      );
    };
    await Promise.all([
      ...commands.map((session, index) =>
        (index % 2 === 0 ? viaSpdy : viaWebSocket)(bed.server.offer(session)),
      ),
      ...pods.map((pod) => forwarding(bed.server.offer(pod))),
    ]);
    await bed.empty();
    assert.ok(commands.every(({ running }) => running === 0));
    await until("the pods' connections ended", () => pods.every(({ open }) => open.size === 0));
    assert.equal(bed.server.offers, 0);
  });
});
