import { describe, test } from "node:test";
import assert from "node:assert/strict";
import fc from "fast-check";
import {
  FrameReader,
  HeaderBlockReader,
  ProtocolError,
  type Frame,
} from "../../../../src/lib/http2/frames.js";
import { HpackDecoder } from "../../../../src/lib/http2/hpack.js";
import { RequestRewriter } from "../../../../src/shim/grpc/authority/request-rewriter.js";
import {
  clientPreface,
  flags,
  frame,
  headers,
  indexed,
  literal,
  requestFields,
  settings,
  settingsAck,
  types,
  type Coding,
  type Indexing,
} from "../http2-writer.js";

/** A frame that is passed on, or a decoded header block. */
type Item =
  Frame | { readonly fields: readonly string[]; readonly endStream: boolean; readonly priority: string };

const isAuthority = (field: string): boolean => field.startsWith(":authority=");

/** A client's bytes as frames and decoded header blocks. */
function interpret(bytes: Buffer): Item[] {
  const frames = new FrameReader();
  const blocks = new HeaderBlockReader();
  const decoder = new HpackDecoder();
  const items: Item[] = [];
  for (const read of frames.read(bytes)) {
    const block = blocks.read(read);
    if (block === "part") continue;
    if (block === undefined) {
      items.push(read);
      continue;
    }
    const decoded = decoder.decode(block.fields);
    const fields = decoded.map((f) => `${f.name}=${f.value}=${String(f.neverIndexed)}`);
    items.push({ fields, endStream: block.endStream, priority: block.priority.toString("hex") });
  }
  assert.equal(frames.incomplete.length, 0);
  return items;
}

function rewrite(bytes: Buffer, cuts: readonly number[] = []): Buffer {
  const rewriter = new RequestRewriter({ acknowledged: false });
  const positions = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
  const output = positions
    .slice(1)
    .flatMap((end, index) => rewriter.rewrite(bytes.subarray(positions[index], end)));
  return Buffer.concat(output);
}

const token = fc.string({
  unit: fc.constantFrom("a", "b", "x", "y", "-", "0", "9"),
  minLength: 1,
  maxLength: 12,
});
const indexing = fc.constantFrom<Indexing>("incremental", "without", "never");
const coding = fc.constantFrom<Coding>("raw", "huffman");
const authority = fc.oneof(
  fc.constant(Buffer.alloc(0)),
  fc.constant(indexed(1)),
  fc
    .tuple(
      fc.constantFrom<(number | string)[]>(1, ":authority"),
      fc.constantFrom("", "/run/x.sock", "localhost"),
      indexing,
      coding,
    )
    .map((form) => literal(...form)),
);
const extra = fc.array(
  fc.tuple(token, token, indexing, coding).map((form) => literal(...form)),
  { maxLength: 5 },
);

/** A header block as HEADERS and CONTINUATION frames, padded and prioritised or not. */
const headerFrames = fc
  .record({
    streamId: fc.integer({ min: 1, max: 1000 }).map((n) => 2 * n - 1),
    fields: fc
      .tuple(fc.boolean(), authority, extra)
      .map(([isRequest, ...parts]) =>
        isRequest ? requestFields("Version", ...parts) : Buffer.concat(parts[1]),
      ),
    padding: fc.option(fc.integer({ min: 0, max: 20 })),
    priority: fc.boolean(),
    endStream: fc.boolean(),
    parts: fc.integer({ min: 1, max: 5 }),
  })
  .map(({ streamId, fields, padding, priority, endStream, parts }) => {
    const size = Math.ceil(fields.length / parts);
    const fragments = [...Array(parts).keys()].map((n) => fields.subarray(n * size, (n + 1) * size));
    const frames = fragments.map((fragment, index) => {
      const last = index === parts - 1 ? flags.endHeaders : 0;
      if (index > 0) return frame(types.continuation, last, streamId, fragment);
      const payload = [
        ...(padding === null ? [] : [Buffer.of(padding)]),
        ...(priority ? [Buffer.of(0, 0, 0, 3, 200)] : []),
        ...[fragment, Buffer.alloc(padding ?? 0)],
      ];
      const bits =
        (endStream ? flags.endStream : 0) |
        (padding === null ? 0 : flags.padded) |
        (priority ? flags.priority : 0);
      return frame(types.headers, last | bits, streamId, Buffer.concat(payload));
    });
    return Buffer.concat(frames);
  });
const { data, priority, reset, ping, goAway, windowUpdate } = types;
const otherFrame = fc
  .tuple(
    fc.constantFrom(data, priority, reset, types.settings, ping, goAway, windowUpdate, 77),
    fc.integer({ min: 0, max: 255 }),
    fc.integer({ min: 0, max: 0x7fffffff }),
    fc.uint8Array({ maxLength: 300 }).map((payload) => Buffer.from(payload)),
  )
  .map((parts) => frame(...parts));
const conversation = fc
  .array(fc.oneof(headerFrames, otherFrame), { maxLength: 12 })
  .map((frames) => Buffer.concat([clientPreface, settings, settingsAck, ...frames]));

describe("RequestRewriter", () => {
  test("changes nothing but authorities, and leaves out the first acknowledgement", () => {
    const withoutAuthority = (items: Item[]): unknown[] =>
      items.map((item) =>
        "fields" in item ? { ...item, fields: item.fields.filter((field) => !isAuthority(field)) } : item,
      );
    fc.assert(
      fc.property(conversation, (bytes) => {
        const before = interpret(bytes);
        const after = interpret(rewrite(bytes));
        const isAck = (item: Item): boolean =>
          "type" in item && item.type === types.settings && (item.flags & flags.ack) !== 0;
        before.splice(before.findIndex(isAck), 1);
        assert.deepEqual(withoutAuthority(after), withoutAuthority(before));
        for (const [index, item] of after.entries()) {
          const original = before[index];
          if (!("fields" in item) || original === undefined || !("fields" in original)) continue;
          const isRequest = item.fields.some((field) => field.startsWith(":method="));
          const authorities = item.fields.filter(isAuthority);
          assert.equal(authorities.length, isRequest ? 1 : 0);
          if (original.fields.some((field) => field.startsWith(":authority=localhost="))) {
            assert.deepEqual(item.fields, original.fields);
          } else if (isRequest) {
            assert.match(authorities[0] ?? "", /^:authority=localhost=/);
          }
        }
      }),
    );
  });

  test("gives the same bytes however they arrive", () => {
    fc.assert(
      fc.property(conversation, fc.array(fc.nat(), { maxLength: 30 }), (bytes, cuts) => {
        assert.deepEqual(rewrite(bytes, cuts), rewrite(bytes));
      }),
    );
    const bytes = Buffer.concat([clientPreface, settings, headers(1, requestFields("Version", indexed(1)))]);
    assert.deepEqual(rewrite(bytes, [...bytes.keys()]), rewrite(bytes), "byte by byte");
  });

  test("splits a block that outgrows a frame", () => {
    // Huffman code makes these names and values smaller than they are.
    const fields = [...Array(40).keys()].map((n) =>
      literal(`x-${String(n)}`, "e".repeat(700), "without", "huffman"),
    );
    const bytes = Buffer.concat([
      clientPreface,
      settings,
      headers(1, requestFields("Version", indexed(1), fields.slice(0, 30))),
    ]);
    const output = rewrite(bytes);
    const frames = [...new FrameReader().read(output)];
    assert.deepEqual(
      frames.map(({ type, flags: bits }) => [type, bits]),
      [
        [types.settings, 0],
        [types.headers, 0],
        [types.continuation, flags.endHeaders],
      ],
    );
    const block = interpret(output)[1];
    assert.ok(block !== undefined && "fields" in block);
    assert.equal(block.fields.filter((field) => field.startsWith("x-")).length, 30);
  });

  test("leaves a second acknowledgement alone when the first has been taken out before", () => {
    const rewriter = new RequestRewriter({ acknowledged: true });
    const bytes = Buffer.concat([clientPreface, settings, settingsAck]);
    assert.deepEqual(Buffer.concat(rewriter.rewrite(bytes)), bytes);
  });

  test("either passes arbitrary bytes on or throws a ProtocolError", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 500 }), (bytes) => {
        try {
          rewrite(Buffer.concat([clientPreface, settings, Buffer.from(bytes)]));
        } catch (error) {
          assert.ok(error instanceof ProtocolError);
        }
      }),
    );
  });
});
