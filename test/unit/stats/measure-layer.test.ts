import assert from "node:assert/strict";
import { test } from "node:test";
import { orAbort } from "../../../src/shim/lib/abort.js";
import { layerMeasurement } from "../../../src/shim/stats/measure-layer.js";
import { rejectsWith } from "../../fakes/pods.js";
import { idOf, snapshotOf } from "../../fakes/snapshots.js";

test("layerMeasurement() gives an engine that does not answer up", async () => {
  const measure = layerMeasurement({
    host: () => ({ writableLayer: () => Promise.resolve(undefined) }),
    engine: {
      writableLayerBytes: (_, signal) => orAbort(new Promise<never>(() => undefined), signal),
    },
    engineLimitMs: 20,
  });
  const never = new AbortController().signal;
  await rejectsWith(measure(snapshotOf({ id: idOf("a") }), never), "timeout", /size container/);
  assert.equal(never.aborted, false);
});
