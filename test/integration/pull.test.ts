/** Pulls from a registry that the tests start. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { rejectsWith } from "../support/cri-client.js";
import { builtinPauseReference } from "../../src/shim/pause/pause-image.js";
import {
  createContainer,
  dockerJson,
  inspectImage,
  removeContainer,
  removeImage,
} from "../support/docker.js";
import type { PushedImage } from "../support/registry.js";
import {
  freePort,
  noRegistryReason,
  registryPassword,
  registryUser,
  TestRegistry,
} from "../support/registry.js";
import type { ShimProcess } from "../support/shim-process.js";
import { reasonToSkip, TestBed } from "../support/test-bed.js";
import { testImageArchive } from "../support/test-image.js";
import { until } from "../support/wait.js";

/** Whether the engine tells what was never pulled: containerd's image store does from API 1.54 on. */
async function tellsOrigins(): Promise<boolean> {
  const { DriverStatus = [] } = (await dockerJson("GET", "/info")) as { DriverStatus?: [string, string][] };
  const { ApiVersion } = (await dockerJson("GET", "/version")) as { ApiVersion: string };
  const hasContainerdStore = DriverStatus.some(([, value]) => value.includes("containerd.snapshotter"));
  return !hasContainerdStore || Number(ApiVersion.split(".")[1]) >= 54;
}

describe("pulls", { skip: (await reasonToSkip()) || noRegistryReason() }, () => {
  const bed = TestBed.ofSuite();
  let shim: ShimProcess;
  let open: TestRegistry;
  let closed: TestRegistry;
  before(async () => {
    shim = await bed.startShim({ flags: ["--log-level=debug"] });
    open = bed.own(await TestRegistry.start(join(bed.directory, "open")));
    closed = bed.own(await TestRegistry.start(join(bed.directory, "closed"), { login: true }));
  });

  /** An image that the engine does not have, in a registry. Its names go away with the bed. */
  async function push(registry: TestRegistry): Promise<PushedImage & { readonly reference: string }> {
    const name = bed.newName("image");
    const archive = await testImageArchive({ reference: `dockershim.test/${name}:1`, marker: name });
    const pushed = await registry.push(`test/${name}`, "1", archive);
    const reference = `${pushed.repository}:${pushed.tag}`;
    bed.onClose(async () => {
      const id =
        (await inspectImage(reference))?.Id ??
        (await inspectImage(`${pushed.repository}@${pushed.digest}`))?.Id;
      await removeImage(reference);
      if (id !== undefined) await removeImage(id);
    });
    return { ...pushed, reference };
  }

  test("by tag: the id is that of ListImages, ImageStatus and of the container's status", async () => {
    const { cri } = shim;
    const { reference, repository, digest } = await push(open);
    assert.equal((await cri.ImageStatus({ image: { image: reference } })).image, null);
    const { image_ref } = await cri.PullImage({ image: { image: reference } });
    const { image } = await cri.ImageStatus({ image: { image: reference } });
    assert.equal(image?.id, image_ref);
    assert.equal(image.pinned, false, "what was pulled may be collected");
    assert.deepEqual(image.repo_tags, [reference]);
    assert.deepEqual(image.repo_digests, [`${repository}@${digest}`]);
    const { images } = await cri.ListImages({ filter: { image: { image: reference } } });
    assert.deepEqual(
      images.map(({ id }) => id),
      [image_ref],
    );
    assert.equal((await cri.ImageStatus({ image: { image: image_ref } })).image?.id, image_ref);

    await using pod = await bed.runPod(cri);
    const id = await pod.start({ image: { image: image_ref, user_specified_image: reference } });
    const status = await pod.containerStatus(id);
    assert.equal(status.image_id, image_ref);
    assert.equal(status.image_ref, `docker-pullable://${repository}@${digest}`);
    const [listed] = (await cri.ListContainers({ filter: { id } })).containers;
    assert.equal(listed?.image_ref, image_ref);
  });

  test("what was pulled is not pinned; the pause image, what was made here, and what others use is", async () => {
    const { cri } = shim;
    const { reference } = await push(open);
    const { image_ref: pulled } = await cri.PullImage({ image: { image: reference } });
    await using _pod = await bed.runPod(cri);
    /** Events of the engine arrive a little later. The list first: statuses on containerd's store go by it. */
    const becomesPinned = async (image: string, expected: boolean): Promise<void> => {
      await until(`${image} is ${expected ? "" : "not "}pinned`, async () => {
        const id = (await inspectImage(image))?.Id;
        const listed = (await cri.ListImages({})).images.find((one) => one.id === id);
        const { image: status } = await cri.ImageStatus({ image: { image } });
        return listed?.pinned === expected && status?.pinned === expected;
      });
    };
    await becomesPinned(builtinPauseReference, true);
    await becomesPinned(pulled, false);
    const foreign = await createContainer(bed.newName("foreign"), { Image: reference });
    try {
      await becomesPinned(pulled, true);
      if (await tellsOrigins()) {
        await becomesPinned(bed.image, true);
        const name = `dockershim.test/${bed.newName("built")}`;
        const commit = async (): Promise<string> => {
          const query = `container=${foreign}&repo=${encodeURIComponent(name)}&tag=1`;
          const { Id } = (await dockerJson("POST", `/commit?${query}`, {})) as { Id: string };
          bed.onClose(() => removeImage(Id));
          return Id;
        };
        const first = await commit();
        await becomesPinned(first, true);
        // A later build of the name leaves it without one.
        await becomesPinned(await commit(), true);
        await becomesPinned(first, false);
      }
    } finally {
      await removeContainer(foreign);
    }
    await becomesPinned(pulled, false);
  });

  test("by digest", async () => {
    const { cri } = shim;
    const { repository, digest } = await push(open);
    const image = `${repository}@${digest}`;
    const { image_ref } = await cri.PullImage({ image: { image } });
    const found = (await cri.ImageStatus({ image: { image } })).image;
    assert.equal(found?.id, image_ref);
    assert.deepEqual([found.repo_tags, found.repo_digests], [[], [image]]);
    await cri.RemoveImage({ image: { image } });
    assert.equal((await cri.ImageStatus({ image: { image } })).image, null);
  });

  test("credentials as user and password, and as auth; wrong and missing ones are denied; none is logged", async () => {
    const { cri } = shim;
    const key = Buffer.from(`${registryUser}:${registryPassword}`).toString("base64");
    for (const auth of [{ username: registryUser, password: registryPassword }, { auth: key }]) {
      const { reference } = await push(closed);
      await rejectsWith(cri.PullImage({ image: { image: reference } }), "PERMISSION_DENIED");
      const wrong = { username: registryUser, password: "Wrong-0815-plugh" };
      await rejectsWith(cri.PullImage({ image: { image: reference }, auth: wrong }), "PERMISSION_DENIED");
      const { image_ref } = await cri.PullImage({ image: { image: reference }, auth });
      assert.match(image_ref, /^sha256:/);
    }
    assert.match(shim.log, /"rpc":"PullImage"/);
    for (const secret of [registryPassword, key, "Wrong-0815-plugh", key.replaceAll("=", "")]) {
      assert.ok(!shim.log.includes(secret), `the log has ${secret}`);
    }
  });

  test("an image that the registry does not have is NOT_FOUND, and nothing of it is there", async () => {
    const { repository } = await push(open);
    await rejectsWith(shim.cri.PullImage({ image: { image: `${repository}:2` } }), "NOT_FOUND");
    await rejectsWith(shim.cri.PullImage({ image: { image: `${open.host}/test/nothing:1` } }), "NOT_FOUND");
    assert.equal((await shim.cri.ImageStatus({ image: { image: `${repository}:2` } })).image, null);
  });

  test("a registry that is not there is UNKNOWN, and the message begins with RegistryUnavailable", async () => {
    const image = `127.0.0.1:${String(await freePort())}/test/gone:1`;
    await rejectsWith(shim.cri.PullImage({ image: { image } }), "UNKNOWN", /^RegistryUnavailable: /);
  });
});
