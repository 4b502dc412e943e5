import assert from "node:assert/strict";
import { once } from "node:events";
import { Duplex } from "node:stream";
import { buffer } from "node:stream/consumers";
import { test } from "node:test";
import { SpdyClient } from "../../../../src/play/streams/spdy-client.js";
import { dataFrameHeader } from "../../../../src/lib/spdy/frames.js";
import { turns } from "../../../fakes/turns.js";

function frame(streamId: number, data: Buffer): Buffer {
  return Buffer.concat([dataFrameHeader(streamId, data.length, { fin: true }), data]);
}

test("a stream that fills its buffer and ends in one chunk does not stop the others", async () => {
  const transport = new Duplex({ read: () => undefined, write: (_chunk, _encoding, done) => done() });
  const client = new SpdyClient(transport, Buffer.alloc(0));
  const [output, status] = [client.open({ streamtype: "stdout" }), client.open({ streamtype: "error" })];
  transport.push(frame(1, Buffer.alloc(200_000)));
  await turns(3);
  transport.push(frame(3, Buffer.from("done")));
  // Not destroyed at its end, as by pipeline(): this side may still write.
  output.resume();
  await once(output, "end");
  await turns(3);
  assert.equal(transport.isPaused(), false);
  assert.equal((await buffer(status)).toString(), "done");
  client.destroy();
});
