/** Images whose labels are those by which shims know pods: the engine gives them to all containers of the image. */
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { rejectsWith } from "../support/cri-client.js";
import { createContainer, inspectContainer, removeContainer, startContainer } from "../support/docker.js";
import type { ShimProcess } from "../support/shim-process.js";
import { reasonToSkip, runLabel, TestBed } from "../support/test-bed.js";

const forged = {
  "io.kubernetes.docker.type": "podsandbox",
  "io.kubernetes.pod.name": "forged",
  "io.kubernetes.pod.namespace": "default",
  "io.kubernetes.pod.uid": "uid-forged",
  "io.kubernetes.container.name": "POD",
};

describe("labels of images", { skip: await reasonToSkip() }, () => {
  const bed = TestBed.ofSuite();
  let shim: ShimProcess;
  const image = "dockershim.test/labelled:1";
  before(async () => {
    const imageMounts = JSON.stringify([
      { containerPath: "/a", image: bed.image, imageId: `sha256:${"e".repeat(64)}`, subPath: "", volume: "" },
    ]);
    const Labels = { vendor: "x", "dockershim.image-mounts": imageMounts, ...forged };
    await bed.load({ reference: image, marker: "labelled", config: { Labels } });
    shim = await bed.startShim();
  });

  test("make no pod of a foreign container, started before the shim or afterwards", async () => {
    const runIt = async (): Promise<string> => {
      const body = { Image: image, Labels: { [runLabel]: bed.run }, Cmd: ["sleep", "1000"] };
      const id = await createContainer(bed.newName("foreign"), body);
      bed.onClose(() => removeContainer(id));
      await startContainer(id);
      return id;
    };
    const early = await runIt();
    const second = await bed.startShim();
    const late = await runIt();
    for (const { cri } of [shim, second]) {
      // What the engine said of a container of a pod afterwards has been read: so have the events before.
      await using _pod = await bed.runPod(cri);
      const { items } = await cri.ListPodSandbox({ filter: { label_selector: { [runLabel]: bed.run } } });
      assert.deepEqual(
        items.filter(({ id }) => id === early || id === late),
        [],
      );
      for (const id of [early, late]) {
        await rejectsWith(cri.PodSandboxStatus({ pod_sandbox_id: id }), "NOT_FOUND");
        await cri.StopPodSandbox({ pod_sandbox_id: id });
        await cri.RemovePodSandbox({ pod_sandbox_id: id });
        assert.equal((await inspectContainer(id))?.State.Running, true);
      }
    }
  });
});
