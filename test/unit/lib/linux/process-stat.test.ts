import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { hasEnded, parseStat } from "../../../../src/lib/linux/process-stat.js";

const tail = "S 12 13 14 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 3 0 98765 1000 2 3\n";

describe("parseStat()", () => {
  const commands = ["sh", "tmux: server", "a) S 1 1 1", "((sd-pam))", "x\ny", ""];
  for (const command of commands) {
    test(`reads the fields after the command ${JSON.stringify(command)}`, () => {
      assert.deepEqual(parseStat(`4711 (${command}) ${tail}`), {
        pid: 4711,
        parent: 12,
        group: 13,
        session: 14,
        state: "S",
        threads: 3,
        startTime: "98765",
      });
    });
  }

  test("answers undefined for a text that is cut off", () => {
    assert.equal(parseStat(""), undefined);
    assert.equal(parseStat("4711 (sh) S 12 13"), undefined);
  });
});

test("hasEnded() takes a zombie for dead only when no thread of it is left", () => {
  const stat = { pid: 1, parent: 1, group: 1, session: 1, startTime: "1" };
  assert.equal(hasEnded(undefined), true);
  assert.equal(hasEnded({ ...stat, state: "Z", threads: 1 }), true);
  assert.equal(hasEnded({ ...stat, state: "Z", threads: 2 }), false);
  assert.equal(hasEnded({ ...stat, state: "D", threads: 1 }), false);
});
