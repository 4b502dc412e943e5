import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { orAbort } from "../../../src/lib/abort.js";
import { Rollback } from "../../../src/lib/rollback.js";
import { recordingLog } from "../../fakes/recording-log.js";

describe("Rollback", () => {
  test("runs all steps in reverse order when the action fails, and the action's error comes through", async () => {
    const undone: string[] = [];
    const act = async (): Promise<void> => {
      await using rollback = new Rollback(recordingLog(), 1000);
      for (const name of ["first", "second", "third"]) {
        rollback.defer(name, () => Promise.resolve(undone.push(name)));
      }
      throw new Error("the action");
    };
    await assert.rejects(act(), /^Error: the action$/);
    assert.deepEqual(undone, ["third", "second", "first"]);
  });

  test("runs nothing after commit", async () => {
    let undone = false;
    {
      await using rollback = new Rollback(recordingLog(), 1000);
      rollback.defer("step", () => {
        undone = true;
        return Promise.resolve();
      });
      rollback.commit();
    }
    assert.equal(undone, false);
  });

  test("a failing undo is logged by name, keeps the others running and hides no error", async () => {
    const log = recordingLog();
    const undone: string[] = [];
    const act = async (): Promise<void> => {
      await using rollback = new Rollback(log, 1000);
      rollback.defer("good", () => Promise.resolve(undone.push("good")));
      rollback.defer("bad", () => Promise.reject(new Error("cannot undo")));
      throw new Error("the action");
    };
    await assert.rejects(act(), /^Error: the action$/);
    assert.deepEqual(undone, ["good"]);
    const errors = log.lines.filter((line) => line.level === "error");
    assert.deepEqual(
      errors.map(({ fields }) => fields),
      [{ step: "bad", err: "cannot undo" }],
    );
  });

  test("an undo that hangs is given up after its own deadline", async () => {
    const log = recordingLog();
    const undone: string[] = [];
    {
      await using rollback = new Rollback(log, 5);
      rollback.defer("good", () => Promise.resolve(undone.push("good")));
      rollback.defer("hanging", (signal) => orAbort(new Promise(() => undefined), signal));
    }
    assert.deepEqual(undone, ["good"]);
    assert.deepEqual(
      log.lines.filter((line) => line.level === "error").map((line) => line.fields["err"]),
      ["hanging: not finished after 5ms"],
    );
  });
});
