import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Lifetime } from "../../../src/lib/lifetime.js";
import { recordingLog } from "../../fakes/recording-log.js";

const never = (): Promise<never> => new Promise(() => undefined);

describe("Lifetime", () => {
  test("close() goes backwards, and a step that fails does not keep the others from closing", async () => {
    const closed: string[] = [];
    const log = recordingLog();
    const lifetime = new Lifetime(log);
    lifetime.onClose("first", async () => closed.push("first"));
    lifetime.onClose("second", () => Promise.reject(new Error("no")));
    lifetime.onClose("third", async () => closed.push("third"));
    await lifetime.close();
    assert.deepEqual(lifetime.abandoned, []);
    assert.deepEqual(closed, ["third", "first"]);
    const fields = { step: "second", err: "no" };
    assert.deepEqual(log.lines, [{ level: "error", message: "cannot close", fields }]);
  });

  test("close() abandons a step that hangs, names it, and tells the steps after it", async () => {
    const log = recordingLog();
    const lifetime = new Lifetime(log, { stepMs: 1, allMs: 10_000 });
    let told: readonly string[] | undefined;
    lifetime.onClose("files", async (abandoned) => {
      told = [...abandoned];
    });
    lifetime.onClose("a hanging step", never);
    await lifetime.close();
    assert.deepEqual(lifetime.abandoned, ["a hanging step"]);
    assert.deepEqual(told, ["a hanging step"]);
    const fields = { step: "a hanging step", err: "close: not finished after 1ms" };
    assert.deepEqual(log.lines, [{ level: "error", message: "cannot close", fields }]);
  });

  test("close() begins each step, also when the time of all is used up", async () => {
    const lifetime = new Lifetime(recordingLog(), { stepMs: 10_000, allMs: 1 });
    let begun = false;
    lifetime.onClose("last", () => {
      begun = true;
      return never();
    });
    lifetime.onClose("hangs", never);
    await lifetime.close();
    assert.deepEqual(lifetime.abandoned, ["hangs", "last"]);
    assert.equal(begun, true);
  });

  test("first() limits what comes before the other steps, and close() names it, too", async () => {
    const lifetime = new Lifetime(recordingLog());
    await lifetime.first("calls", 1, never);
    await lifetime.close();
    assert.deepEqual(lifetime.abandoned, ["calls"]);
  });
});
