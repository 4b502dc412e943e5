import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ShimError } from "../../../../src/lib/errors.js";
import type { NewImage } from "../../../fakes/fake-images.js";
import { rejectsWith } from "../../../support/refusals.js";
import { imageSpec } from "../../../fakes/requests.js";
import { pauseImage, shimOfEachTest, TestShim } from "../../../fakes/services.js";
import { turns, until } from "../../../fakes/turns.js";

const shim = shimOfEachTest();

const digest = `sha256:${"d".repeat(64)}`;
const id = `sha256:cafe${"0".repeat(60)}`;

/** An image with two tags and a digest. */
async function shimWithImage(snapshot = {}): Promise<TestShim> {
  return TestShim.start({
    prepare: ({ engine }) => {
      engine.images.add({
        id,
        tags: ["registry.example:5000/app:1", "app:latest"],
        digests: [`app@${digest}`],
        snapshot,
      });
    },
  });
}

const status = async (shim: TestShim, image: string, verbose = false) =>
  shim.rpcs.ImageStatus({ image: imageSpec(image), verbose }, shim.call());
const remove = (shim: TestShim, image: string): Promise<unknown> =>
  shim.rpcs.RemoveImage({ image: imageSpec(image) }, shim.call());

async function list(shim: TestShim, image: string | null): Promise<readonly (string | undefined)[]> {
  const filter = image === null ? null : { image: imageSpec(image) };
  const images = await shim.rpcs.ListImages({ filter }, shim.call());
  return images.map((one) => one.id);
}

const names = [
  ...["app", "app:latest", "docker.io/library/app:latest", "index.docker.io/library/app"],
  ...["registry.example:5000/app:1", `app@${digest}`, id, id.slice("sha256:".length)],
];
/** Docker finds ids by a prefix; lists never do. */
const prefix = id.slice("sha256:".length, "sha256:".length + 12);
const others = [
  // A name that merely looks like a prefix must not find another image.
  ...["cafe", "app:2", "registry.example:5000/app", "other.example/app:latest", "APP"],
  `app@sha256:${"e".repeat(64)}`,
];

test("an image is found by its names, its digest and its id; a prefix of the id only by status", async () => {
  await using shim = await shimWithImage();
  for (const name of [...names, prefix, ...others]) {
    assert.equal((await status(shim, name)).image?.id, others.includes(name) ? undefined : id, name);
    assert.deepEqual(await list(shim, name), names.includes(name) ? [id] : [], name);
  }
});

describe("imageStatus()", () => {
  const users: readonly (readonly [string, object])[] = [
    ["", { uid: undefined, username: "" }],
    ["1000", { uid: { value: "1000" }, username: undefined }],
    ["1000:50", { uid: { value: "1000" }, username: undefined }],
    ["9".repeat(18), { uid: { value: "9".repeat(18) }, username: undefined }],
    // More than an Int64Value can say: no user id.
    ["9".repeat(23), { uid: undefined, username: "9".repeat(23) }],
    ["app", { uid: undefined, username: "app" }],
    ["app:group", { uid: undefined, username: "app" }],
  ];
  test("shows the image's user as id or name", async () => {
    for (const [user, expected] of users) {
      await using shim = await shimWithImage({ user });
      const { image } = await status(shim, "app");
      assert.deepEqual({ uid: image?.uid, username: image?.username }, expected, user);
    }
  });

  test("tells names, size, and whether garbage collection must leave it", async () => {
    const [repoTags, repoDigests] = [["app:latest"], [`app@${digest}`]];
    await using shim = await shimWithImage({ size: 12_345, repoTags, repoDigests });
    const { image, info } = await status(shim, id);
    const { repo_tags, repo_digests, size, pinned } = image ?? {};
    assert.deepEqual(
      [repo_tags, repo_digests, size, pinned, info],
      [repoTags, repoDigests, "12345", false, {}],
    );
    assert.equal((await status(shim, pauseImage)).image?.pinned, true);
  });

  test("of an absent image is an empty answer", async () => {
    await using shim = await shimWithImage();
    assert.deepEqual(await status(shim, "absent:1", true), { image: null });
  });

  test("tells config and history, oldest first, when it is asked to", async () => {
    await using shim = await shimWithImage({ config: { Cmd: ["sh"] }, layers: ["sha256:1"] });
    const { info } = await status(shim, "app", true);
    const { imageSpec } = JSON.parse(info?.["info"] ?? "") as {
      imageSpec: { config: unknown; rootfs: unknown; history: { created_by: string }[] };
    };
    const created = imageSpec.history.map((entry) => entry.created_by);
    const expected = [{ Cmd: ["sh"] }, { type: "layers", diff_ids: ["sha256:1"] }, ["ADD rootfs", "CMD sh"]];
    assert.deepEqual([imageSpec.config, imageSpec.rootfs, created], expected);
  });
});

describe("an image", () => {
  const run = (shim: TestShim, image: string, labels = {}, name = "foreign"): string =>
    shim.engine.containers.create(name, { Image: image, Labels: labels, HostConfig: {} });
  const add = (shim: TestShim, image: Omit<NewImage, "id">): string =>
    shim.engine.images.add({ id, ...image });
  const pulled = { tags: ["app:latest"], digests: [`app@${digest}`] };

  /** As list and status have it, which must agree. */
  async function pinned(shim: TestShim, image = id): Promise<boolean | undefined> {
    const images = await shim.rpcs.ListImages({ filter: null }, shim.call());
    const listed = images.find((one) => one.id === image)?.pinned;
    assert.equal((await status(shim, image)).image?.pinned, listed);
    return listed;
  }

  const ofPod = { "io.kubernetes.docker.type": "container" };
  const ofSandbox = { "io.kubernetes.docker.type": "podsandbox" };
  const ofHelper = { "io.kubernetes.docker.type": "" };
  const cases: Readonly<Record<string, [expected: boolean, (shim: TestShim) => unknown]>> = {
    "that was pulled": [false, (shim) => add(shim, pulled)],
    "that was built or loaded, and never pulled or pushed": [true, (shim) => add(shim, { tags: ["app:1"] })],
    "that a pull of its tag has left": [false, (shim) => add(shim, { digests: [`app@${digest}`] })],
    "that a build has left without a name": [false, (shim) => add(shim, {})],
    "without a name that a container outside of pods uses": [true, (shim) => [add(shim, {}), run(shim, id)]],
    "that a container outside of pods uses": [true, (shim) => [add(shim, pulled), run(shim, id)]],
    "of a pod of another shim": [false, (shim) => [add(shim, pulled), run(shim, id, ofPod, "k8s_a_b_c_d_0")]],
    "of a container that its labels alone make one of a pod": [
      true,
      (shim) => [add(shim, pulled), run(shim, id, ofPod)],
    ],
    "of a sandbox of another shim": [
      false,
      (shim) => [add(shim, pulled), run(shim, id, ofSandbox, "k8s_POD_b_c_d_0")],
    ],
    "of a helper of this program": [
      false,
      (shim) => [add(shim, pulled), run(shim, id, ofHelper, "dockershim-scratch-1")],
    ],
  };
  for (const [what, [expected, prepare]] of Object.entries(cases)) {
    test(`${what} is ${expected ? "" : "not "}pinned`, async () => {
      prepare(shim);
      assert.equal(await pinned(shim), expected);
    });
  }

  test("is pinned for as long as a container outside of pods has it", async () => {
    await using shim = await shimWithImage();
    assert.equal(await pinned(shim), false);
    const container = run(shim, id);
    await turns(5);
    assert.equal(await pinned(shim), true);
    shim.engine.containers.start(container);
    shim.engine.containers.exit(container, 0);
    await turns(5);
    assert.equal(await pinned(shim), true, "also after its end");
    shim.engine.containers.remove(container, { force: true });
    await turns(5);
    assert.equal(await pinned(shim), false);
  });

  test("is pinned by --pinned-images when one of its names matches", async () => {
    for (const [pattern, expected] of [
      ["app", true],
      ["registry.example:5000/*", true],
      [`app@${digest}`, true],
      ["app:2", false],
    ] as const) {
      await using shim = await TestShim.start({ pinnedImages: [pattern] });
      add(shim, { tags: ["registry.example:5000/app:1", "app:latest"], digests: [`app@${digest}`] });
      assert.equal(await pinned(shim), expected, pattern);
    }
  });

  test("is pinned by status as by the last list, where an inspect cannot tell where it is from", async () => {
    await using shim = await shimWithImage();
    let hasRegistry = false;
    const list = shim.engine.listImages.bind(shim.engine);
    shim.engine.listImages = async (signal) =>
      (await list(signal)).map((image) => ({ ...image, hasRegistry: image.id === id ? hasRegistry : true }));
    assert.equal(await pinned(shim), true);
    hasRegistry = true;
    shim.services.images.cache.forget();
    assert.equal(await pinned(shim), false);
  });

  test("that is pinned can be removed", async () => {
    await using shim = await TestShim.start({ pinnedImages: ["*"] });
    add(shim, { tags: ["app:1"] });
    assert.equal(await pinned(shim), true);
    await remove(shim, "app:1");
    assert.equal(shim.engine.images.find(id), undefined);
  });
});

describe("listImages() and imageStatus()", () => {
  test("make no request for containers while none outside of pods comes or goes", async () => {
    await using shim = await shimWithImage();
    await list(shim, null);
    const sandbox = await shim.runSandbox();
    await shim.runContainer(sandbox);
    await turns(5);
    shim.world.journal.clear();
    shim.services.images.cache.forget();
    await list(shim, null);
    await status(shim, "app");
    assert.deepEqual(shim.world.journal.names(), ["engine.listImages", "engine.inspectImage"]);
  });

  test("make no request at all until an image event", async () => {
    await using shim = await shimWithImage();
    const { engine, world } = shim;
    const items = (): Promise<unknown> => shim.rpcs.ListImages({ filter: null }, shim.call());
    const first = await items();
    await status(shim, "app");
    world.journal.clear();
    assert.equal(await items(), first, "the same items, whose bytes are kept");
    await list(shim, "app");
    await status(shim, "app");
    await status(shim, id);
    assert.deepEqual(world.journal.names(), []);
    engine.images.add({ id, tags: ["app:3"] });
    await turns(5);
    assert.deepEqual((await status(shim, id)).image?.repo_tags, ["app:3"]);
    assert.deepEqual(await list(shim, "app:latest"), []);
    assert.deepEqual(await list(shim, "app:3"), [id]);
  });

  test("show an image that was pulled or removed by a call before it, also when no event comes", async () => {
    await using shim = await shimWithImage();
    await list(shim, null);
    await status(shim, "app");
    shim.engine.events$.policy = () => [];
    await remove(shim, "app");
    assert.equal((await status(shim, "app")).image, null);
    assert.deepEqual(await list(shim, "app"), []);
    const pull = { image: imageSpec("app:2"), auth: null, sandbox_config: null };
    await shim.rpcs.PullImage(pull, shim.call());
    assert.equal((await list(shim, "app:2")).length, 1);
  });

  test("forget an image that a create did not find", async () => {
    await using shim = await shimWithImage();
    const sandbox = await shim.runSandbox();
    await status(shim, "app");
    shim.engine.images.lose(id);
    await rejectsWith(shim.runContainer(sandbox, "main", { image: imageSpec("app") }), "notFound");
    assert.equal((await status(shim, "app")).image, null);
  });

  for (const [what, notice] of [
    ["a removal", (shim: TestShim) => remove(shim, "app")],
    ["a verbose status", (shim: TestShim) => status(shim, "app", true)],
    ["a status by another name", (shim: TestShim) => status(shim, `app@${digest}`)],
  ] as const) {
    test(`forget an image whose absence ${what} has found, when no event told of it`, async () => {
      await using shim = await shimWithImage();
      await list(shim, null);
      await status(shim, "app");
      shim.engine.events$.policy = () => [];
      shim.engine.images.lose(id);
      assert.equal((await status(shim, "app")).image?.id, id, "it is in memory");
      await notice(shim);
      assert.equal((await status(shim, "app")).image, null);
      assert.deepEqual(await list(shim, "app"), []);
    });
  }

  test("forget an image that is gone when its removal has the lock", async () => {
    await using shim = await shimWithImage();
    await status(shim, "app");
    shim.engine.events$.policy = () => [];
    const inspect = shim.engine.inspectImage.bind(shim.engine);
    shim.engine.inspectImage = async (...args) => {
      const image = await inspect(...args);
      shim.engine.images.lose(id);
      return image;
    };
    await remove(shim, "app");
    assert.equal((await status(shim, "app")).image, null);
  });

  test("answer when containers cannot be listed, and RemoveImage still refuses what one uses", async () => {
    await using shim = await shimWithImage();
    shim.engine.containers.create("foreign", { Image: "app", Labels: {}, HostConfig: {} });
    await turns(5);
    shim.engine.failNext("listContainers", new ShimError("exhausted", "too large"));
    assert.deepEqual(await list(shim, "app"), [id]);
    assert.equal((await status(shim, "app")).image?.id, id);
    await rejectsWith(remove(shim, "app"), "precondition", /container ".*" uses it/);
  });
});

describe("removeImage()", () => {
  test("removes the image with all its names, by each of them, also twice", async () => {
    for (const name of ["app:latest", "registry.example:5000/app:1", `app@${digest}`, id, id.slice(7, 19)]) {
      await using shim = await shimWithImage();
      await Promise.all([remove(shim, "app:latest"), remove(shim, name), remove(shim, "absent:1")]);
      await remove(shim, name);
      assert.equal(shim.engine.images.find(id), undefined, name);
      assert.equal((await status(shim, "registry.example:5000/app:1")).image, null, name);
    }
  });

  test("refuses an image that a container or a sandbox uses, before any name is gone", async () => {
    const container = await shim.runContainer();
    const message = new RegExp(`container "${container}" uses it`);
    await rejectsWith(remove(shim, "busybox"), "precondition", message);
    await rejectsWith(remove(shim, pauseImage), "precondition", /uses it/);
    assert.deepEqual(shim.world.journal.names("engine.removeImage"), []);
  });

  test("does not take the shim's own look into the image for a user", async () => {
    await using shim = await shimWithImage();
    let slow = true;
    shim.engine.hangs = (verb) => verb === "readContainerFile" && slow;
    shim.services.images.users.prepare(id);
    await until("a scratch container is there", () => shim.engine.containers.ids.length > 0);
    const removing = remove(shim, "app");
    removing.catch(() => undefined);
    slow = false;
    shim.engine.up();
    await removing;
    assert.equal(shim.engine.images.find(id), undefined);
  });

  test("that fails half way can be repeated", async () => {
    await using shim = await shimWithImage();
    shim.world.journal.afterStep = ({ verb }) => {
      if (verb !== "removeImage") return;
      shim.world.journal.afterStep = undefined;
      shim.engine.failNext("removeImage", new ShimError("unavailable", "planned fault"));
    };
    await rejectsWith(remove(shim, "app"), "unavailable", /planned fault/);
    assert.ok(shim.engine.images.find(id));
    await remove(shim, id);
    assert.equal(shim.engine.images.find(id), undefined);
  });
});

describe("imageFsInfo()", () => {
  const info = (shim: TestShim) => shim.rpcs.ImageFsInfo({}, shim.call());

  test("tells bytes and inodes of Docker's directory", async () => {
    const { image_filesystems: [fs] = [], container_filesystems } = await info(shim);
    assert.equal(fs?.fs_id?.mountpoint, "/var/lib/docker");
    assert.deepEqual([fs.used_bytes?.value, fs.inodes_used?.value], ["2000", "50"]);
    assert.ok(BigInt(fs.timestamp ?? 0) > 0n);
    assert.equal(container_filesystems?.length, 1);
    assert.equal(container_filesystems[0]?.fs_id?.mountpoint, "/var/lib/docker");
  });

  test("tells what containers have written, and inodes only when all were counted", async () => {
    const sandbox = await shim.runSandbox();
    const used = async () => {
      const { container_filesystems: [fs] = [] } = await info(shim);
      return [fs?.used_bytes?.value, fs?.inodes_used?.value];
    };
    assert.deepEqual(await used(), ["0", "0"]);
    for (const [inodes, expected] of [
      [3, ["100", "3"]],
      [4, ["200", "7"]],
      [undefined, ["300", undefined]],
    ] as const) {
      const container = await shim.runContainer(sandbox, `with-${inodes}`);
      shim.world.layers.set(container, { timestamp: 1n, usedBytes: 100, inodes });
      assert.deepEqual(await used(), expected);
    }
  });

  test("names the directory of the containerd image store, for containers too", async () => {
    shim.world.host.imageRoot = "/var/lib/containerd";
    const { image_filesystems: [images] = [], container_filesystems: [containers] = [] } = await info(shim);
    const [root, own] = [images?.fs_id?.mountpoint, containers?.fs_id?.mountpoint];
    assert.deepEqual([root, own], ["/var/lib/containerd", "/var/lib/containerd"]);
  });

  test("measures once for concurrent callers, and not again at once, unless it failed", async () => {
    shim.engine.failNext("imageDiskUsage", new ShimError("timeout", "too slow"));
    await rejectsWith(info(shim), "timeout");
    shim.world.journal.clear();
    const [first, second] = await Promise.all([info(shim), info(shim)]);
    const third = await info(shim);
    // The other file system has the time of the call.
    assert.deepEqual(first.image_filesystems, second.image_filesystems);
    assert.deepEqual(first.image_filesystems, third.image_filesystems);
    assert.equal(shim.world.journal.names("engine.imageDiskUsage").length, 1);
  });

  test("measures again after half a minute, also when the clock was set back meanwhile", async (t) => {
    await info(shim);
    const [date, monotonic] = [Date.now(), performance.now()];
    t.mock.method(Date, "now", () => date - 3_600_000);
    let elapsed = 29_000;
    t.mock.method(performance, "now", () => monotonic + elapsed);
    await info(shim);
    assert.equal(shim.world.journal.names("engine.imageDiskUsage").length, 1);
    elapsed = 31_000;
    await info(shim);
    assert.equal(shim.world.journal.names("engine.imageDiskUsage").length, 2);
  });

  test("tells the file system's use when the engine cannot say", async () => {
    shim.engine.imageDiskUsage = () => turns(1).then(() => undefined);
    const { image_filesystems: [fs] = [] } = await info(shim);
    assert.equal(fs?.used_bytes?.value, "5000");
  });
});
