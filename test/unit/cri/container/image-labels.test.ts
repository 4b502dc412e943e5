/** Docker gives a container the labels of its image. They must not make it a sandbox or a pod's container. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { Labels } from "../../../../src/domain/labels.js";
import { imageVolumeLabel } from "../../../../src/shim/images/image-volume-store.js";
import { scratchLabel } from "../../../../src/shim/images/scratch-containers.js";
import { rejectsWith } from "../../../support/refusals.js";
import { imageSpec } from "../../../fakes/requests.js";
import { TestShim, type World } from "../../../fakes/services.js";

const modelId = `sha256:${"e".repeat(64)}`;
const podLabels = {
  "io.kubernetes.pod.name": "web",
  "io.kubernetes.pod.namespace": "default",
  "io.kubernetes.pod.uid": "uid-1",
};
const containerLabels = (sandboxId = "f".repeat(64)): Labels => ({
  "io.kubernetes.docker.type": "container",
  "io.kubernetes.sandbox.id": sandboxId,
  "io.kubernetes.container.name": "main",
});
const imageMount = { containerPath: "/a", image: "model:1", imageId: modelId, subPath: "", volume: "" };
const imageMounts = JSON.stringify([imageMount]);

function addImages(world: World, labels: Labels): void {
  world.engine.images.add({ id: modelId, tags: ["model:1"] });
  world.engine.images.add({ tags: ["labelled:1"], snapshot: { labels } });
}

const start = (labels: Labels): Promise<TestShim> =>
  TestShim.start({ prepare: (world) => addImages(world, labels) });

/** `docker run --name NAME labelled:1` */
function dockerRun({ engine }: Pick<World, "engine">, name: string): string {
  const id = engine.containers.create(name, { Image: "labelled:1", Labels: {}, HostConfig: {} });
  engine.containers.start(id);
  return id;
}

async function statusOf(shim: TestShim, id: string) {
  const { status } = await shim.rpcs.ContainerStatus({ container_id: id, verbose: false }, shim.call());
  return status;
}

describe("a container of a pod", () => {
  test("has the labels and annotations of its request, and no others", async () => {
    await using shim = await start({ vendor: "x", app: "image", "annotation.note": "image" });
    const own = { labels: { app: "request" }, annotations: { hash: "1" } };
    const id = await shim.createContainer(await shim.runSandbox(), {
      image: imageSpec("labelled:1"),
      ...own,
    });
    const status = await statusOf(shim, id);
    assert.deepEqual({ labels: status?.labels, annotations: status?.annotations }, own);
    const containers = await shim.rpcs.ListContainers({ filter: null }, shim.call());
    const found = containers.map(({ labels, annotations }) => ({ labels, annotations }));
    assert.deepEqual(found, [own]);
    const filter = { id: "", pod_sandbox_id: "", state: null, label_selector: { vendor: "x" } };
    assert.deepEqual(await shim.rpcs.ListContainers({ filter }, shim.call()), []);
  });

  test("is no user of an image volume because its image says so", async () => {
    await using shim = await start({ "dockershim.image-mounts": imageMounts });
    const id = await shim.createContainer(await shim.runSandbox(), { image: imageSpec("labelled:1") });
    assert.deepEqual((await statusOf(shim, id))?.mounts, []);
    await shim.rpcs.RemoveImage({ image: imageSpec("model:1") }, shim.call());
    assert.equal(shim.engine.images.find("model:1"), undefined);
  });

  test("of another shim is none either, and keeps its labels, whatever list of labels the image has", async () => {
    const keys = (sandbox: string): string =>
      JSON.stringify({ sandbox, keys: ["dockershim.image-mounts", "io.kubernetes.docker.type"] });
    for (const label of [keys(""), keys("f".repeat(64)), "{", "[]", "null", '{"sandbox":"x"}']) {
      const labels = { "dockershim.image-mounts": imageMounts, "dockershim.label-keys": label };
      await using shim = await start({ vendor: "x", ...labels });
      const sandbox = await shim.runSandbox();
      const Labels = { ...containerLabels(sandbox), "io.kubernetes.container.logpath": "/log" };
      const name = "k8s_main_web_default_uid-1_0";
      const id = shim.engine.containers.create(name, { Image: "labelled:1", Labels, HostConfig: {} });
      await shim.sync.refresh(id);
      const status = await statusOf(shim, id);
      assert.deepEqual(status?.labels, { vendor: "x", "io.kubernetes.container.name": "main" }, label);
      assert.deepEqual([status.mounts, status.log_path], [[], "/log"]);
    }
  });
});

describe("a container of another program from an image with the labels of a", () => {
  for (const [what, labels] of [
    ["sandbox", { "io.kubernetes.docker.type": "podsandbox", ...podLabels }],
    ["container of a pod", { ...containerLabels(), ...podLabels }],
  ] as const) {
    test(`${what} is in no list, whether it was there before the shim or comes later`, async () => {
      let early = "";
      await using shim = await TestShim.start({
        prepare: (world) => {
          addImages(world, labels);
          early = dockerRun(world, "quirky_bohr");
        },
      });
      const late = dockerRun(shim, "happy_noether");
      await shim.sync.refresh(late);
      await shim.sync.refresh(early);
      assert.deepEqual([await shim.listedSandboxes(), await shim.listedContainers()], [{}, {}]);
      const status = shim.rpcs.PodSandboxStatus({ pod_sandbox_id: late, verbose: false }, shim.call());
      await rejectsWith(status, "notFound");
      await shim.removeSandbox(early);
      await shim.removeContainer(late);
      for (const id of [early, late]) assert.equal(shim.engine.containers.get(id).state.running, true);
    });
  }

  test("helper of this program outlives a start", async () => {
    await using shim = await start({});
    const place = shim.world.directory.replaceAll("/", "-");
    const labels = { [scratchLabel]: `${place}/x`, [imageVolumeLabel]: place };
    shim.engine.images.add({ tags: ["labelled:1"], snapshot: { labels } });
    const id = dockerRun(shim, "quirky_bohr");
    const { signal } = shim.call();
    await shim.services.images.scratch.removeOrphaned(signal);
    await shim.services.images.volumes.cleanUp(signal);
    assert.equal(shim.engine.containers.get(id).state.running, true);
  });
});

test("a container of a pod that another program renamed stays listed", async () => {
  let id = "";
  await using shim = await TestShim.start({
    prepare: (world) => {
      addImages(world, {});
      const body = { Image: "labelled:1", Labels: containerLabels(), HostConfig: {} };
      id = world.engine.containers.create("renamed", body);
    },
  });
  assert.deepEqual(await shim.listedContainers(), { [id]: 0 });
});

test("a scratch container is in no list, also with an image that has the labels of a sandbox", async () => {
  await using shim = await start({});
  const labels = { "io.kubernetes.docker.type": "podsandbox", ...podLabels };
  const imageId = shim.engine.images.add({ tags: ["posing:1"], snapshot: { labels } });
  await shim.services.images.scratch.use({ id: imageId, volumes: [] }, shim.call().signal, async (id) => {
    await shim.sync.refresh(id);
    assert.deepEqual(await shim.listedSandboxes(), {});
    assert.equal(shim.engine.containers.inspect(id)?.labels["io.kubernetes.docker.type"], "");
  });
});
