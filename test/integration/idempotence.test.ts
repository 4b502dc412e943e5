/** Stop and remove, in any order, any number of times, also when the engine lost the object in between. */
import assert from "node:assert/strict";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { rejectsWith } from "../support/cri-client.js";
import { inspectContainer, removeContainer } from "../support/docker.js";
import { long, reasonToSkip, TestBed } from "../support/test-bed.js";

const rounds = long ? 200 : 4;

/** A sequence that depends on the seed alone, so that a failure can be repeated. */
function* random(seed: number): Generator<number, never> {
  for (let state = seed; ;) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    yield state / 2 ** 32;
  }
}

describe("idempotence", { skip: await reasonToSkip() }, () => {
  const bed = TestBed.ofSuite({ shim: {} });

  async function nothingIsLeft(): Promise<void> {
    assert.deepEqual(await bed.ownContainers(), []);
    for (const part of ["sandbox", "pods", "containers"]) {
      assert.deepEqual(await readdir(join(bed.shim.stateDirectory, part)), [], part);
    }
  }

  test(`${String(rounds)} random orders of stops and removes, with objects removed behind the shim's back`, async () => {
    const { cri } = bed.shim;
    for (let round = 0; round < rounds; round += 1) {
      const numbers = random(round);
      const pod = await bed.runPod(cri);
      const id = await pod.start({ command: ["sleep", "1000"] });
      const actions: readonly (readonly [string, () => Promise<unknown>])[] = [
        ["StopContainer", () => cri.StopContainer({ container_id: id, timeout: "0" })],
        ["RemoveContainer", () => cri.RemoveContainer({ container_id: id })],
        ["StopPodSandbox", () => pod.stop()],
        ["RemovePodSandbox", () => pod.remove()],
        ["docker rm container", () => removeContainer(id)],
        ["docker rm sandbox", () => removeContainer(pod.id)],
      ];
      const done: string[] = [];
      for (let step = 0; step < 8; step += 1) {
        const [name, act] = actions[Math.floor(numbers.next().value * actions.length)] ?? ["", async () => 0];
        done.push(name);
        await assert.doesNotReject(act(), `round ${String(round)}: ${done.join(", ")}`);
      }
      await pod.stop();
      await pod.remove();
      await nothingIsLeft();
    }
  });

  test("each of stop and remove, five at once, succeeds for all callers", async () => {
    const { cri } = bed.shim;
    const pod = await bed.runPod(cri);
    const id = await pod.start({ command: ["sleep", "1000"] });
    const five = (act: () => Promise<unknown>): Promise<unknown> =>
      Promise.all(Array.from({ length: 5 }, act));
    await five(() => cri.StopContainer({ container_id: id, timeout: "0" }));
    await five(() => cri.RemoveContainer({ container_id: id }));
    await five(() => pod.stop());
    await five(() => pod.remove());
    await nothingIsLeft();
  });

  test("CreateContainer again replaces a container that does not run, and never one that does", async () => {
    await using pod = await bed.runPod(bed.shim.cri);
    const first = await pod.create();
    const second = await pod.create();
    assert.notEqual(first, second);
    assert.equal(await inspectContainer(first), undefined);
    await bed.shim.cri.StartContainer({ container_id: second });
    await rejectsWith(pod.create(), "ALREADY_EXISTS");
    assert.equal((await inspectContainer(second))?.State.Running, true);
  });
});
