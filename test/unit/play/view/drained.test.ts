import assert from "node:assert/strict";
import { Writable } from "node:stream";
import { test } from "node:test";
import { drained } from "../../../../src/play/view/drained.js";

const never = new AbortController().signal;

test("drained() waits until a full output takes more", async () => {
  const takes: (() => void)[] = [];
  const output = new Writable({ highWaterMark: 1, write: (_chunk, _encoding, done) => takes.push(done) });
  await drained(output, never);
  output.write("ab");
  let isDrained = false;
  const waiting = drained(output, never).then(() => (isDrained = true));
  await Promise.resolve();
  assert.equal(isDrained, false);
  takes[0]?.();
  await waiting;
  assert.equal(output.listenerCount("drain"), 0);
});

test("drained() waits for no output that has ended, and not after an interrupt", async () => {
  const output = new Writable({ highWaterMark: 1, write: () => undefined });
  output.write("ab");
  const waiting = drained(output, never);
  output.destroy();
  await waiting;
  const full = new Writable({ highWaterMark: 1, write: () => undefined });
  full.write("ab");
  const interrupt = new AbortController();
  const interrupted = drained(full, interrupt.signal);
  interrupt.abort();
  await interrupted;
});
