import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { FileLocks, isFileKey } from "../../../../src/lib/files/state-files.js";

describe("isFileKey()", () => {
  for (const key of ["a", "0", "a".repeat(250), "3f2a-b_c.d0"]) {
    test(`accepts ${JSON.stringify(key.slice(0, 20))}`, () => assert.equal(isFileKey(key), true));
  }
  const refused = ["", ".", "..", ".a", "a.", "-a", "a-", "a/b", "../a", "a\0", "a\n", "a b", "é"];
  refused.push("a".repeat(251));
  for (const key of refused) {
    test(`refuses ${JSON.stringify(key.slice(0, 20))}`, () => assert.equal(isFileKey(key), false));
  }
});

describe("FileLocks", () => {
  test("runs work of one key in order and of two keys at once", async () => {
    const locks = new FileLocks();
    const steps: string[] = [];
    let release = (): void => undefined;
    const gate = new Promise<void>((resolve) => (release = resolve));
    const first = locks.run("a", "first", async () => {
      await gate;
      steps.push("first");
    });
    const second = locks.run("a", "second", async () => Promise.resolve(steps.push("second")));
    await locks.run("b", "other", async () => Promise.resolve(steps.push("other")));
    release();
    await Promise.all([first, second]);
    assert.deepEqual(steps, ["other", "first", "second"]);
  });

  test("gives callers back after the time limit but keeps the lock of a hanging disk", async () => {
    const locks = new FileLocks(1);
    let release = (): void => undefined;
    const gate = new Promise<void>((resolve) => (release = resolve));
    let entered = 0;
    const hanging = locks.run("a", "hang", () => gate);
    await assert.rejects(hanging, { kind: "timeout" });
    const waiting = locks.run("a", "wait", async () => Promise.resolve((entered += 1)));
    await assert.rejects(waiting, { kind: "timeout" });
    assert.equal(entered, 0);
    release();
    await gate;
    await locks.run("a", "again", () => Promise.resolve());
  });
});
