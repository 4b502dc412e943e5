import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { TokenTable } from "../../../src/shim/streaming/token-table.js";

function tableWithClock(maxOpen = 3): { table: TokenTable<string>; clock: { nowMs: number } } {
  const clock = { nowMs: 1_000 };
  return { clock, table: new TokenTable({ maxOpen, lifetimeMs: 60_000, now: () => clock.nowMs }) };
}

describe("TokenTable", () => {
  test("gives the value of a token once, and none for unknown tokens", () => {
    const { table } = tableWithClock(50);
    const tokens = Array.from({ length: 50 }, () => table.add("session"));
    assert.equal(new Set(tokens).size, 50);
    // 32 random bytes that need no escapes in a URL.
    for (const token of tokens) assert.match(token, /^[A-Za-z0-9_-]{43}$/);
    for (const token of ["", "x", "__proto__", "constructor"]) assert.equal(table.take(token), undefined);
    assert.equal(table.take(tokens[0]!), "session");
    assert.equal(table.take(tokens[0]!), undefined);
    assert.equal(table.size, 49);
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
    const refused = (): void => assert.throws(() => table.add("c"), { kind: "exhausted" });
    refused();
    table.take(first);
    table.add("c");
    refused();
    clock.nowMs += 60_000;
    table.add("d");
    assert.equal(table.size, 1);
  });

  test("removes expired values without another call", (t) => {
    t.mock.timers.enable({ apis: ["setTimeout"] });
    const { table, clock } = tableWithClock();
    const pass = (ms: number): void => {
      clock.nowMs += ms;
      t.mock.timers.tick(ms);
    };
    table.add("a");
    pass(30_000);
    table.add("b");
    pass(30_000);
    assert.equal(table.size, 1);
    pass(60_000);
    assert.equal(table.size, 0);
  });
});
