/** Which images are shown as pinned: those that the kubelet's garbage collection spares. */
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { builtinPauseReference } from "../../src/shim/pause/pause-image.js";
import {
  createContainer,
  dockerJson,
  inspectImage,
  removeContainer,
  removeImage,
  tagImage,
} from "../support/docker.js";
import type { ShimProcess } from "../support/shim-process.js";
import { reasonToSkip, TestBed } from "../support/test-bed.js";
import { testImageArchive } from "../support/test-image.js";
import { until } from "../support/wait.js";
import { noRegistryReason, TestRegistry } from "../support/registry.js";

/** Why the engine cannot tell what was never pulled, or false. */
async function originUnknownReason(): Promise<string | false> {
  const { DriverStatus = [] } = (await dockerJson("GET", "/info")) as { DriverStatus?: [string, string][] };
  const { ApiVersion } = (await dockerJson("GET", "/version")) as { ApiVersion: string };
  const hasContainerdStore = DriverStatus.some(([, value]) => value.includes("containerd.snapshotter"));
  return hasContainerdStore && Number(ApiVersion.split(".")[1]) < 54
    ? "the containerd image store tells no origin of images before API 1.54"
    : false;
}

const skip = (await reasonToSkip()) || noRegistryReason();
const skipOfOrigins = skip === false && (await originUnknownReason());

describe("pinned images", { skip }, () => {
  const bed = TestBed.ofSuite();
  let shim: ShimProcess;
  /** In the registry, and pulled. */
  let pulled: string;
  let kept: string;
  before(async () => {
    const registry = bed.own(await TestRegistry.start(await bed.newDirectory()));
    const archive = await testImageArchive({ reference: "x:1", marker: `pulled-${bed.run}` });
    const push = async (name: string): Promise<string> => {
      const { repository, tag } = await registry.push(`test/${name}-${bed.run}`, "1", archive);
      return `${repository}:${tag}`;
    };
    [pulled, kept] = [await push("pulled"), await push("kept")];
    shim = await bed.startShim({ flags: [`--pinned-images=*/kept-${bed.run}*`] });
    for (const reference of [pulled, kept]) bed.onClose(() => removeImage(reference));
    await shim.cri.PullImage({ image: { image: pulled } });
  });

  /** Undefined while list and status differ: events of the engine arrive a little later. */
  async function isPinned(reference: string): Promise<boolean | undefined> {
    const id = (await inspectImage(reference))?.Id;
    // The list first: it is what kubelets go by, and what statuses on the containerd image store know of origins.
    const listed = (await shim.cri.ListImages({})).images.find((image) => image.id === id);
    const { image } = await shim.cri.ImageStatus({ image: { image: reference } });
    return image?.pinned === listed?.pinned ? listed?.pinned : undefined;
  }

  async function becomesPinned(reference: string, expected: boolean): Promise<void> {
    await until(`${reference} is ${expected ? "" : "not "}pinned`, async () => {
      return (await isPinned(reference)) === expected;
    });
  }

  /** The engine keeps it after its name is gone, so it goes by id. */
  async function commit(container: string, repository: string): Promise<string> {
    const query = `container=${container}&repo=${encodeURIComponent(repository)}&tag=1`;
    const { Id } = (await dockerJson("POST", `/commit?${query}`, {})) as { Id: string };
    bed.onClose(() => removeImage(Id));
    return Id;
  }

  test("the pause image is, and an image that was pulled is not, also when a pod uses it", async () => {
    await using pod = await bed.runPod(shim.cri);
    await pod.create({ image: { image: pulled } });
    await becomesPinned(builtinPauseReference, true);
    await becomesPinned(pulled, false);
  });

  test("one that --pinned-images names is, and can be removed", async () => {
    const [repository = "", tag = ""] = kept.split(/:(?=[^:/]*$)/);
    await tagImage(pulled, repository, tag);
    await becomesPinned(kept, true);
    await removeImage(kept);
    await becomesPinned(pulled, false);
  });

  test(
    "one that was loaded or committed is, and what a build of the same name leaves is not",
    { skip: skipOfOrigins },
    async () => {
      await becomesPinned(bed.image, true);
      const repository = `dockershim.test/${bed.newName("built")}`;
      const container = await createContainer(bed.newName("builder"), { Image: pulled });
      try {
        const first = await commit(container, repository);
        await becomesPinned(first, true);
        const second = await commit(container, repository);
        assert.notEqual(second, first);
        await becomesPinned(second, true);
        await becomesPinned(first, false);
        assert.deepEqual((await shim.cri.ImageStatus({ image: { image: first } })).image?.repo_tags, []);
        await shim.cri.RemoveImage({ image: { image: second } });
        assert.equal(await inspectImage(second), undefined);
      } finally {
        await removeContainer(container);
      }
    },
  );
});
