/** SPDY connections over a transport in memory. */
import assert from "node:assert/strict";
import { Duplex } from "node:stream";
import type { TestContext } from "node:test";
import {
  SpdyConnection,
  type SpdyLimits,
  type SpdyStream,
} from "../../../../src/shim/streaming/spdy/spdy-connection.js";
import { SpdyClient } from "./spdy-client.js";

/** One end of a transport with the backpressure of a socket. */
class End extends Duplex {
  peer: End | undefined;
  #done: (() => void) | undefined;

  override _read(): void {
    const done = this.peer?.release();
    done?.();
  }

  release(): (() => void) | undefined {
    const done = this.#done;
    this.#done = undefined;
    return done;
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error) => void): void {
    if (this.peer === undefined || this.peer.destroyed || this.peer.push(chunk)) process.nextTick(done);
    else this.#done = done;
  }

  override _final(done: () => void): void {
    if (this.peer?.destroyed === false) this.peer.push(null);
    done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    const { peer } = this;
    if (peer !== undefined && !peer.destroyed) process.nextTick(() => peer.destroy());
    done(error);
  }
}

/** Of each direction, whatever the default of Node.js is: it is part of what a client can send. */
const buffers = { highWaterMark: 16 * 1024 };

export function duplexPair(): [client: End, server: End] {
  const [client, server] = [new End(buffers), new End(buffers)];
  client.peer = server;
  server.peer = client;
  return [client, server];
}

interface Options {
  readonly limits?: Partial<SpdyLimits>;
  readonly onStream?: (stream: SpdyStream) => void;
  readonly head?: Buffer;
}

/** A connection with its client and its streams. After the test all of it must be closed. */
export function connect(t: TestContext, { limits = {}, onStream, head }: Options = {}) {
  const [far, near] = duplexPair();
  const listeners = countListeners(near);
  const streams: SpdyStream[] = [];
  const connection = new SpdyConnection(near, {
    limits: { lingerMs: 20, ...limits },
    ...(head === undefined ? {} : { head }),
    onStream: (stream) => {
      streams.push(stream);
      onStream?.(stream);
    },
  });
  t.after(async () => {
    connection.destroy();
    await connection.closed;
    assert.deepEqual(countListeners(near), listeners, "listeners stayed on the transport");
    assert.ok(near.destroyed);
    for (const stream of streams) assert.ok(stream.destroyed, `stream ${String(stream.id)} stayed open`);
  });
  return { client: new SpdyClient(far), connection, streams, far, near };
}

function countListeners(emitter: NodeJS.EventEmitter): Record<string, number> {
  return Object.fromEntries(
    ["data", "end", "error", "close", "drain"].map((name) => [name, emitter.listenerCount(name)]),
  );
}
