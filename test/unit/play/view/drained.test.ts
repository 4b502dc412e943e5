import assert from "node:assert/strict";
import { Writable } from "node:stream";
import { test } from "node:test";
import { drained } from "../../../../src/play/view/drained.js";

test("drained() waits until a full output takes more, has ended, or the user interrupts", async () => {
  for (const how of ["takes more", "has ended", "interrupt"]) {
    const takes: (() => void)[] = [];
    const output = new Writable({ highWaterMark: 1, write: (_chunk, _encoding, done) => takes.push(done) });
    const interrupt = new AbortController();
    await drained(output, interrupt.signal);
    output.write("ab");
    let isDrained = false;
    const waiting = drained(output, interrupt.signal).then(() => (isDrained = true));
    await Promise.resolve();
    assert.equal(isDrained, false);
    if (how === "takes more") takes[0]?.();
    else if (how === "has ended") output.destroy();
    else interrupt.abort();
    await waiting;
    assert.equal(output.listenerCount("drain"), 0);
  }
});
