import assert from "node:assert/strict";
import { describe, mock, test } from "node:test";
import { isKind } from "../../../src/lib/errors.js";
import { TokenTable } from "../../../src/shim/streaming/token-table.js";

function tableWithClock(maxOpen = 3): { table: TokenTable<string>; clock: { nowMs: number } } {
  const clock = { nowMs: 1_000 };
  return { clock, table: new TokenTable({ maxOpen, lifetimeMs: 60_000, now: () => clock.nowMs }) };
}

describe("TokenTable", () => {
  test("take() gives the value once", () => {
    const { table } = tableWithClock();
    const token = table.add("session");
    assert.equal(table.take(token), "session");
    assert.equal(table.take(token), undefined);
    assert.equal(table.size, 0);
  });

  test("take() returns undefined for unknown tokens", () => {
    const { table } = tableWithClock();
    table.add("session");
    for (const token of ["", "x", "__proto__", "constructor"]) assert.equal(table.take(token), undefined);
  });

  test("add() gives tokens of 32 random bytes that need no escapes in a URL", () => {
    const { table } = tableWithClock(100);
    const tokens = Array.from({ length: 50 }, () => table.add("x"));
    assert.equal(new Set(tokens).size, 50);
    for (const token of tokens) assert.match(token, /^[A-Za-z0-9_-]{43}$/);
  });

  test("take() returns a value until the token expires, and not afterwards", () => {
    const { table, clock } = tableWithClock();
    const [first, second] = [table.add("first"), table.add("second")];
    clock.nowMs += 59_999;
    assert.equal(table.take(first), "first");
    clock.nowMs += 1;
    assert.equal(table.take(second), undefined);
  });

  test("add() throws exhausted at the limit, until a token is used or has expired", () => {
    const { table, clock } = tableWithClock(2);
    const first = table.add("a");
    table.add("b");
    const refused = (): void =>
      assert.throws(
        () => table.add("c"),
        (error) => isKind(error, "exhausted"),
      );
    refused();
    table.take(first);
    table.add("c");
    refused();
    clock.nowMs += 60_000;
    table.add("d");
    assert.equal(table.size, 1);
  });

  test("removes expired values without another call", () => {
    mock.timers.enable({ apis: ["setTimeout"] });
    try {
      const { table, clock } = tableWithClock();
      table.add("a");
      clock.nowMs += 30_000;
      mock.timers.tick(30_000);
      table.add("b");
      clock.nowMs += 30_000;
      mock.timers.tick(30_000);
      assert.equal(table.size, 1);
      clock.nowMs += 60_000;
      mock.timers.tick(60_000);
      assert.equal(table.size, 0);
    } finally {
      mock.timers.reset();
    }
  });
});
