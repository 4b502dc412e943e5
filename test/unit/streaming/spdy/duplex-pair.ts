/** Two ends of a transport in memory, with the backpressure of a socket. */
import { Duplex } from "node:stream";

class End extends Duplex {
  peer: End | undefined;
  #done: (() => void) | undefined;

  constructor() {
    // The default differs between versions of Node.js.
    super({ highWaterMark: 16 * 1024 });
  }

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

export function duplexPair(): [client: End, server: End] {
  const [client, server] = [new End(), new End()];
  client.peer = server;
  server.peer = client;
  return [client, server];
}
