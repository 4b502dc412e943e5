import assert from "node:assert/strict";
import { EventEmitter, once } from "node:events";
import { describe, test } from "node:test";
import type { WebSocket } from "ws";
import { binaryCodec } from "../../../../src/shim/streaming/websocket/channel-codec.js";
import { WebSocketChannels } from "../../../../src/shim/streaming/websocket/channels.js";
import { turns } from "../../../fakes/turns.js";

/** A client that sends messages as long as reading is not paused. */
class EagerClient extends EventEmitter {
  isPaused = false;
  sent = 0;

  pause(): void {
    this.isPaused = true;
  }

  resume(): void {
    this.isPaused = false;
  }

  /** Sends messages of `bytes` bytes to the channel; answers how many were taken, of `limit`. */
  flood(channel: number, bytes: number, limit: number): number {
    for (let count = 0; count < limit; count += 1) {
      if (this.isPaused) return count;
      this.sent += bytes;
      this.emit("message", binaryCodec.encode(channel, Buffer.alloc(bytes)));
    }
    return limit;
  }
}

function connect() {
  const client = new EagerClient();
  const channels = new WebSocketChannels(client as unknown as WebSocket, {
    codec: binaryCodec,
    halfClose: true,
  });
  return { client, channels };
}

const kib = 1024;

describe("messages that are not read", () => {
  for (const [bytes, atMost] of [
    [64 * kib, 4],
    [1, 1100],
  ] as const) {
    test(`of ${String(bytes)} bytes pause the reading at the limit of memory, until they are read`, async () => {
      const { client, channels } = connect();
      const stream = channels.readable(0);
      const taken = client.flood(0, bytes, 300_000);
      assert.ok(taken >= atMost / 2 && taken <= atMost, `${String(taken)} messages were taken`);
      let read = 0;
      stream.on("data", (data: Buffer) => (read += data.length));
      await turns(3);
      assert.equal(client.isPaused, false);
      client.flood(0, bytes, 3);
      client.emit("message", Buffer.from([255, 0]));
      await once(stream, "end");
      assert.equal(read, client.sent);
    });
  }

  test("are dropped with their stream, and reading is resumed", async () => {
    const { client, channels } = connect();
    const stream = channels.duplex(0);
    channels.readable(1).resume();
    client.flood(0, 64 * kib, 100);
    assert.ok(client.isPaused);
    stream.destroy();
    await once(stream, "close");
    assert.equal(client.flood(1, 1, 100), 100);
  });
});
