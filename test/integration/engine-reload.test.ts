/** A runtime that is added to an engine while it runs. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { PodSandboxState } from "../../src/domain/cri.js";
import { rejectsWith } from "../support/cri-client.js";
import { withOwnEngine } from "../support/isolated-engine.js";
import { TestBed } from "../support/test-bed.js";
import { until } from "../support/wait.js";

await withOwnEngine(import.meta.url, ["runc"], (engine) => {
  describe("an engine that reloads its configuration", () => {
    const bed = TestBed.ofSuite({ shim: {} });

    const handlers = async (): Promise<readonly string[]> =>
      (await bed.shim.cri.Status({})).runtime_handlers.map(({ name }) => name);

    test("its new runtime is told to the kubelet and runs pods, and the link stays as it was", async () => {
      await using before = await bed.runPod(bed.shim.cri);
      await rejectsWith(
        bed.runPod(bed.shim.cri, {}, "added"),
        "INVALID_ARGUMENT",
        /RuntimeHandler "added" not supported/,
      );
      assert.ok(!(await handlers()).includes("added"));
      await engine.reload({ runtimes: { added: { path: "runc" } } });
      await until("the runtime to be told", async () => (await handlers()).includes("added"));
      await using pod = await bed.runPod(bed.shim.cri, {}, "added");
      assert.equal((await pod.status()).state, PodSandboxState.SANDBOX_READY);
      assert.equal((await before.status()).state, PodSandboxState.SANDBOX_READY);
      assert.equal(bed.shim.log.match(/"msg":"engine live"/g)?.length, 1);
      assert.match(bed.shim.log, /"msg":"engine configuration reloaded"/);
      assert.doesNotMatch(bed.shim.log, /engine link broken/);
    });

    test("a runtime that is removed is refused with the usual words", async () => {
      await engine.reload({ runtimes: {} });
      await until("the runtime to go", async () => !(await handlers()).includes("added"));
      await rejectsWith(
        bed.runPod(bed.shim.cri, {}, "added"),
        "INVALID_ARGUMENT",
        /RuntimeHandler "added" not supported/,
      );
    });
  });
});
