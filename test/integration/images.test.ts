/** Images that are there: lists, statuses, removal. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { rejectsWith } from "../support/cri-client.js";
import {
  createContainer,
  inspectContainer,
  inspectImage,
  removeContainer,
  removeImage,
  startContainer,
  tagImage,
} from "../support/docker.js";
import { reasonToSkip, runLabel, TestBed } from "../support/test-bed.js";

const forged = {
  "io.kubernetes.docker.type": "podsandbox",
  "io.kubernetes.pod.name": "forged",
  "io.kubernetes.pod.namespace": "default",
  "io.kubernetes.pod.uid": "uid-forged",
  "io.kubernetes.container.name": "POD",
};

describe("images", { skip: await reasonToSkip() }, () => {
  const bed = TestBed.ofSuite({ shim: {} });

  /** An image with an id of its own and two tags. */
  async function twoTags(): Promise<{ id: string; one: string; two: string }> {
    const repository = `dockershim.test/${bed.newName("image")}`;
    const one = `${repository}:1`;
    await bed.load({ reference: one, marker: one });
    await tagImage(one, repository, "2");
    bed.onClose(() => removeImage(`${repository}:2`));
    return { id: (await inspectImage(one))?.Id ?? "", one, two: `${repository}:2` };
  }

  test("ListImages and ImageStatus agree; a filter finds by name and by id; a bare name means latest", async () => {
    const { cri } = bed.shim;
    const { id, one, two } = await twoTags();
    const { image } = await cri.ImageStatus({ image: { image: one } });
    assert.deepEqual(image?.repo_tags.toSorted(), [one, two]);
    const everything = (await cri.ListImages({})).images;
    const listed = everything.find((each) => each.id === id);
    assert.deepEqual(listed?.repo_tags.toSorted(), [one, two]);
    // The containerd image store counts unpacked layers in the list only.
    assert.ok(Number(listed.size) >= Number(image.size) && Number(image.size) > 0);
    for (const name of [one, two, id]) {
      const { images } = await cri.ListImages({ filter: { image: { image: name } } });
      assert.deepEqual(
        images.map((each) => each.id),
        [id],
        name,
      );
    }
    assert.equal((await cri.ImageStatus({ image: { image: one.replace(":1", "") } })).image, null);
    assert.deepEqual((await cri.ListImages({ filter: { image: { image: "no/such:1" } } })).images, []);
  });

  test("RemoveImage by one tag removes all names; again is fine", async () => {
    const { cri } = bed.shim;
    const image = await twoTags();
    await cri.RemoveImage({ image: { image: image.two } });
    for (const name of [image.one, image.two, image.id]) {
      assert.equal(await inspectImage(name), undefined, name);
      assert.equal((await cri.ImageStatus({ image: { image: name } })).image, null);
    }
    await cri.RemoveImage({ image: { image: image.two } });
  });

  test("labels of images, as pods have them, are none of a pod's container, and make no pod of a foreign one", async () => {
    const image = "dockershim.test/labelled:1";
    await bed.load({ reference: image, marker: "labelled", config: { Labels: forged } });
    await using ofPod = await bed.runPod(bed.shim.cri);
    const own = await ofPod.create({ image: { image }, labels: { app: "web" } });
    assert.deepEqual((await ofPod.containerStatus(own)).labels, { app: "web", [runLabel]: bed.run });
    // Started before the shim, and afterwards.
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
    for (const { cri } of [bed.shim, second]) {
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
