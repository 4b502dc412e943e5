import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { FloodGuard } from "../../../../src/shim/grpc/guards/flood-guard.js";
import { cancel, clientPreface, frame, settings, settingsAck, types } from "../http2-writer.js";

const ping = frame(types.ping, 0, 0, Buffer.alloc(8));
const pingAck = frame(types.ping, 1, 0, Buffer.alloc(8));
const emptyData = frame(types.data, 0, 1, Buffer.alloc(0));
const lastEmptyData = frame(types.data, 1, 1, Buffer.alloc(0));
const request = frame(types.headers, 4, 1, Buffer.alloc(20));
const data = frame(types.data, 0, 1, Buffer.alloc(100, 4));

const many = (bytes: Buffer, count: number): Buffer =>
  Buffer.concat(Array.from({ length: count }, () => bytes));

/** A guard that has seen the preface, with a clock in the test's hands. */
function opened(): { readonly guard: FloodGuard; advance: (milliseconds: number) => void } {
  let now = 0;
  const guard = new FloodGuard(() => now);
  guard.check(clientPreface);
  return { guard, advance: (milliseconds) => (now += milliseconds) };
}

describe("FloodGuard", () => {
  for (const [name, bytes] of Object.entries({ SETTINGS: settings, PINGs: ping })) {
    test(`ends a connection with more ${name} than could be answered, however they are cut`, () => {
      fc.assert(
        fc.property(fc.integer({ min: 1, max: 500 }), (size) => {
          const { guard } = opened();
          const flood = many(bytes, 251);
          assert.throws(() => {
            for (let at = 0; at < flood.length; at += size) guard.check(flood.subarray(at, at + size));
          }, /a flood of SETTINGS or PINGs/);
        }),
        { numRuns: 20 },
      );
    });

    test(`lets ${name} pass for ever that were answered in between`, () => {
      const { guard } = opened();
      for (let round = 0; round < 20; round += 1) {
        guard.check(many(bytes, 250));
        guard.answered();
      }
    });
  }

  for (const [name, bytes] of Object.entries({ resets: cancel(1), "empty DATA": emptyData })) {
    test(`ends a connection with more than 500 ${name} at once, and 30 a second from then on`, () => {
      const { guard, advance } = opened();
      guard.check(many(bytes, 500));
      assert.throws(() => guard.check(bytes), /a flood of resets or of empty DATA/);
      const patient = opened();
      patient.guard.check(many(bytes, 500));
      patient.advance(1_000);
      patient.guard.check(many(bytes, 30));
      advance(0);
      assert.throws(() => patient.guard.check(bytes), /a flood/);
    });
  }

  test("passes the requests on a few at a time, however they are cut", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 700 }), (size) => {
        const { guard } = opened();
        const sent = many(request, 100);
        let passed = 0;
        for (let at = 0; at < sent.length; at += size) {
          for (let rest = sent.subarray(at, at + size); rest.length > 0;) {
            const length = guard.check(rest);
            assert.ok(length > 0 && length < 33 * request.length);
            passed += length;
            rest = rest.subarray(length);
          }
        }
        assert.equal(passed, sent.length);
      }),
      { numRuns: 20 },
    );
    const { guard } = opened();
    assert.equal(guard.check(many(data, 5_000)), 5_000 * data.length);
  });

  test("does not count acknowledgements, data and ends of messages, nor what is inside of a frame", () => {
    const { guard } = opened();
    for (const bytes of [settingsAck, pingAck, data, lastEmptyData]) guard.check(many(bytes, 5_000));
    guard.check(frame(types.data, 0, 1, many(ping, 900)));
  });
});
