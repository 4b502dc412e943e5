import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { orAbort, withDeadline } from "../../../src/lib/abort.js";
import { Rollback } from "../../../src/lib/rollback.js";
import { describeWaits } from "../../../src/lib/waits.js";
import { recordingLog } from "../../fakes/recording-log.js";

describe("Rollback", () => {
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

  test("a failure runs all steps in reverse order; a failing undo is logged and hides neither them nor the error", async () => {
    const log = recordingLog();
    const undone: string[] = [];
    const act = async (): Promise<void> => {
      await using rollback = new Rollback(log, 1000);
      const undo = (name: string) => rollback.defer(name, () => Promise.resolve(undone.push(name)));
      undo("first");
      undo("second");
      rollback.defer("bad", () => Promise.reject(new Error("cannot undo")));
      undo("third");
      throw new Error("the action");
    };
    await assert.rejects(act(), /^Error: the action$/);
    assert.deepEqual(undone, ["third", "second", "first"]);
    const errors = log.linesAt("error").map(({ fields }) => fields);
    assert.deepEqual(errors, [{ step: "bad", err: "cannot undo" }]);
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
    const errors = log.linesAt("error").map((line) => line.fields["err"]);
    assert.deepEqual(errors, ["hanging: not finished after 5ms"]);
  });

  test("what an undo waits for is what its caller waits for, which has left", async () => {
    const caller = AbortSignal.abort();
    let waits: readonly string[] = [];
    {
      await using rollback = new Rollback(recordingLog(), 1000, caller);
      rollback.defer("tear down", async (signal) => {
        await withDeadline(signal, 1000, "run DEL", () => {
          waits = describeWaits(caller);
          return Promise.resolve();
        });
      });
    }
    assert.match(waits.join(), /^run DEL \(\d ms\)$/);
  });
});
