/** Pods that dockershim or cri-dockerd made: the shim takes them over. */
import assert from "node:assert/strict";
import { access, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { PodSandboxState } from "../../src/domain/cri.js";
import { inspectContainer, removeContainer } from "../support/docker.js";
import { makeLegacyPod } from "../support/legacy-pod.js";
import { reasonToSkip, TestBed } from "../support/test-bed.js";
import { until } from "../support/wait.js";

interface Vector {
  readonly name: string;
  readonly dockershim: { readonly file: string };
  readonly criDockerd: { readonly file: string };
}

describe("pods of dockershim and cri-dockerd", { skip: await reasonToSkip() }, () => {
  const bed = TestBed.ofSuite({ shim: {} });
  let vector: Vector;
  before(async () => {
    const golden = new URL("../golden/checkpoint-vectors.json", import.meta.url);
    const { vectors } = JSON.parse(await readFile(fileURLToPath(golden), "utf8")) as { vectors: Vector[] };
    const found = vectors.find(({ name }) => name === "one tcp mapping");
    assert.ok(found);
    vector = found;
    // So that the image is there.
    await (await bed.runPod(bed.shim.cri))[Symbol.asyncDispose]();
  });

  test("a checkpoint whose containers are gone is listed as not ready, and goes away with Stop and Remove", async () => {
    const { cri } = bed.shim;
    const { sandbox, container } = await makeLegacyPod(bed);
    const checkpoint = join(bed.shim.stateDirectory, "sandbox", sandbox);
    await writeFile(checkpoint, vector.criDockerd.file, { mode: 0o600 });
    await removeContainer(container);
    await removeContainer(sandbox);
    const item = await until("the checkpoint in the list", async () => {
      const found = (await cri.ListPodSandbox({})).items.find(({ id }) => id === sandbox);
      // Until the engine's events have arrived, the name is the container's.
      return found?.metadata?.name === "web-0" ? found : undefined;
    });
    assert.equal(item.state, PodSandboxState.SANDBOX_NOTREADY);
    // Kubelets from 1.36 on, crictl and play send an empty message.
    assert.deepEqual(
      (await cri.ListPodSandbox({ filter: {} })).items.find(({ id }) => id === sandbox),
      item,
    );
    await cri.StopPodSandbox({ pod_sandbox_id: sandbox });
    await cri.RemovePodSandbox({ pod_sandbox_id: sandbox });
    await assert.rejects(access(checkpoint), { code: "ENOENT" });
  });

  for (const [what, content] of [
    ["damaged", '{"version":"v1","name":"we'],
    ["missing", undefined],
  ] as const) {
    test(`a pod whose checkpoint is ${what} stays ready, and goes away with Stop and Remove`, async () => {
      const directory = await bed.newDirectory();
      const { sandbox, container } = await makeLegacyPod(bed);
      const place = join(directory, "state", "sandbox");
      await mkdir(place, { recursive: true });
      if (content !== undefined) await writeFile(join(place, sandbox), content, { mode: 0o600 });
      await using shim = await bed.startShim({ directory });
      const list = async (): Promise<readonly (readonly [string, number])[]> =>
        (await shim.cri.ListPodSandbox({ filter: { id: sandbox } })).items.map(({ id, state }) => [
          id,
          state,
        ]);
      assert.deepEqual(await list(), [[sandbox, PodSandboxState.SANDBOX_READY]]);
      await shim.cri.StopPodSandbox({ pod_sandbox_id: sandbox });
      await shim.cri.RemovePodSandbox({ pod_sandbox_id: sandbox });
      assert.equal(await inspectContainer(container), undefined);
      assert.deepEqual(await list(), []);
      assert.deepEqual(await readdir(place), []);
      const kept = await readdir(join(directory, "state", "quarantine")).catch(() => []);
      assert.equal(kept.length, content === undefined ? 0 : 1);
    });
  }
});
