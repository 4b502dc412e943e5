/** Sessions as clients have them, with bytes changed, left out, doubled and cut off. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { isKind } from "../../../../src/lib/errors.js";
import { goAwayFrame, pingFrame, rstStreamFrame } from "../../../../src/lib/spdy/frames.js";
import { SpdyConnection, type SpdyStream } from "../../../../src/shim/streaming/spdy/spdy-connection.js";
import { duplexPair } from "./spdy-bed.js";
import { SpdyClient } from "./spdy-client.js";
import { BlockWriter, data, headersFrame, synStream } from "../../../support/spdy-frames.js";

const runs = process.env["DOCKERSHIM_TEST_LONG"] === "1" ? 50_000 : 500;

/** An exec with stdin and a forwarded connection. */
function session(): Buffer {
  const blocks = new BlockWriter();
  const types = ["error", "stdin", "stdout", "data"];
  const open = types.map((type, index) => {
    const headers = Object.entries({ streamtype: type, port: "80" });
    return synStream(1 + 2 * index, blocks.block(headers));
  });
  return Buffer.concat([
    ...open,
    data(3, "echo hello\n"),
    pingFrame(1),
    headersFrame(3, blocks.block([["x", "y"]])),
    data(7, Buffer.alloc(300, 7)),
    data(3, "exit\n", { fin: true }),
    synStream(9, blocks.block([["streamtype", "resize"]]), 1),
    rstStreamFrame(5, 5),
    data(7, "", { fin: true }),
    goAwayFrame(0, 0),
  ]);
}

/** What takes the place of the bytes from one on, by a random number below 256. */
const changes = {
  flip: (after: Buffer, value: number) => [Buffer.of(after[0]! ^ (1 << (value % 8))), after.subarray(1)],
  set: (after: Buffer, value: number) => [Buffer.of(value), after.subarray(1)],
  insert: (after: Buffer, value: number) => [Buffer.alloc(1 + (value % 20), value), after],
  drop: (after: Buffer, value: number) => [after.subarray(1 + (value % 20))],
  repeat: (after: Buffer, value: number) => [after.subarray(0, value), after],
  cut: () => [],
} as const;
const how = fc.constantFrom<keyof typeof changes>(
  ...(["flip", "set", "insert", "drop", "repeat", "cut"] as const),
);
const mutation = fc.record({ at: fc.nat(100_000), how, value: fc.nat(255) });

function mutate(
  bytes: Buffer,
  { at, how, value }: typeof mutation extends fc.Arbitrary<infer T> ? T : never,
): Buffer {
  if (bytes.length === 0) return bytes;
  const place = at % bytes.length;
  return Buffer.concat([bytes.subarray(0, place), ...changes[how](bytes.subarray(place), value)]);
}

/** Uses of a stream by a session. */
const uses: ((stream: SpdyStream) => void)[] = [
  (stream) => stream.pipe(stream),
  (stream) => stream.resume().end("answer"),
  (stream) => stream.write("never read"),
  (stream) => stream.on("data", () => stream.reset()),
];

test("after any input of a client the connection ends with all its streams, and nothing is thrown", async (t) => {
  const thrown: unknown[] = [];
  const note = (error: unknown): void => void thrown.push(error);
  process.on("uncaughtException", note).on("unhandledRejection", note);
  t.after(() => process.off("uncaughtException", note).off("unhandledRejection", note));
  const valid = session();
  let failures = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.array(mutation, { minLength: 1, maxLength: 5 }),
      fc.array(fc.nat(2000), { maxLength: 5 }),
      fc.nat(uses.length - 1),
      fc.constantFrom("close", "destroy", "leave"),
      async (mutations, cuts, use, end) => {
        const bytes = mutations.reduce(mutate, valid);
        const [far, near] = duplexPair();
        const client = new SpdyClient(far);
        const streams: SpdyStream[] = [];
        const connection = new SpdyConnection(near, {
          limits: { lingerMs: 5, headerBlocksPerTurn: 3 },
          onStream: (stream) => {
            streams.push(stream);
            uses[(use + stream.id) % uses.length]!(stream);
          },
        });
        let offset = 0;
        for (const cut of [...cuts.toSorted((a, b) => a - b), bytes.length]) {
          client.transport.write(bytes.subarray(offset, cut));
          offset = Math.max(offset, cut);
          await new Promise(setImmediate);
        }
        if (end === "close") await connection.close();
        else if (end === "destroy") connection.destroy();
        else client.transport.end();
        await connection.closed;
        if (connection.failure !== undefined) {
          failures += 1;
          assert.ok(isKind(connection.failure, "invalid"), connection.failure.stack);
        }
        assert.ok(near.destroyed);
        assert.ok(streams.every(({ destroyed }) => destroyed));
        assert.deepEqual(near.eventNames(), []);
        assert.deepEqual(thrown, []);
      },
    ),
    { numRuns: runs },
  );
  assert.ok(failures > runs / 10, `only ${String(failures)} of the sessions were refused`);
});
