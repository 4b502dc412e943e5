import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ShimError } from "../../../src/lib/errors.js";
import type { CreateBody } from "../../../src/domain/create-body.js";
import type { Mount } from "../../../src/domain/cri.js";
import { imageVolumeLabel, type ImageVolumeStore } from "../../../src/shim/images/image-volume-store.js";
import { scratchLabel } from "../../../src/shim/images/scratch-containers.js";
import { rejectsWith } from "../../support/refusals.js";
import { imageSpec, podMetadata, runRequest } from "../../fakes/requests.js";
import { TestShim, type World } from "../../fakes/services.js";
import { turns, until } from "../../fakes/turns.js";
import { mount } from "../plan/builders.js";

const modelId = `sha256:${"e".repeat(64)}`;
const layers = { UpperDir: "/d/top/diff", LowerDir: "/d/base/diff" };

/** An image whose layers are in the shim's reach, with a directory in each, one in both, and a link. */
function addModel(world: World): void {
  world.engine.images.add({
    id: modelId,
    tags: ["model:1"],
    snapshot: { graphDriverName: "overlay2", graphDriver: layers, volumes: ["/declared"] },
    files: {
      ...{ "/weights/a": "1", "/both/a": "1", "/both/b": "1", "/file": "1" },
      "/current": "-> /weights",
    },
  });
  for (const path of ["/d/base/diff/weights", "/d/base/diff/both", "/d/top/diff/both"])
    world.host.paths.set(path, "directory");
}

async function start(prepare: (world: World) => void = () => undefined, limits = {}): Promise<TestShim> {
  const prepared = (world: World): void => {
    addModel(world);
    prepare(world);
  };
  return TestShim.start({ prepare: prepared, imageVolumeLimits: limits });
}

function volume(changes: Partial<Mount> = {}): Mount {
  const image = imageSpec("model:1");
  return mount({ container_path: "/model", host_path: "", readonly: true, image, ...changes });
}

const create = (shim: TestShim, sandbox: string, name: string, mounts = [volume()]): Promise<string> =>
  shim.createContainer(sandbox, { metadata: { name, attempt: 0 }, mounts });
const removeModel = (shim: TestShim): Promise<unknown> =>
  shim.rpcs.RemoveImage({ image: imageSpec("model:1") }, shim.call());

/** Ids of the containers of the engine with this label. */
function labelled({ engine }: TestShim, labelKey: string): readonly string[] {
  return engine.containers.list({ labelKey }).map(({ id }) => id);
}

/** Names of what was made for image volumes: volumes, pins, scratch containers. */
function made(shim: TestShim): { volumes: readonly string[]; pins: number; scratch: number } {
  return {
    volumes: [...shim.engine.containers.volumes.keys()],
    pins: labelled(shim, imageVolumeLabel).length,
    scratch: labelled(shim, scratchLabel).length,
  };
}

const isMadeNothing = (shim: TestShim): boolean => made(shim).pins + made(shim).volumes.length === 0;

/** Lets what hangs go on. */
function release({ engine }: TestShim): void {
  engine.hangs = () => false;
  engine.up();
}

const nothing = { volumes: [], pins: 0, scratch: 0 };

describe("an image volume over the image's layers", () => {
  test("is made with its pin before the container, which mounts it read-only", async () => {
    await using shim = await start();
    const id = await create(shim, await shim.runSandbox(), "main");
    const { body } = shim.engine.containers.get(id);
    const [name = ""] = made(shim).volumes;
    assert.deepEqual(body.HostConfig.Mounts, [
      { Type: "volume", Source: name, Target: "/model", ReadOnly: true, VolumeOptions: { NoCopy: true } },
    ]);
    const { o } = shim.engine.containers.volumes.get(name)?.options ?? {};
    assert.equal(o, "ro,lowerdir=/d/top/diff:/d/base/diff");
    const pin = shim.engine.containers.get(name);
    assert.deepEqual([pin.imageId, pin.state.status], [modelId, "created"]);
    const [, ...declared] = pin.body.HostConfig.Mounts ?? [];
    assert.deepEqual(declared, [{ Type: "tmpfs", Source: "", Target: "/declared" }]);
    assert.deepEqual(await shim.listedContainers(), { [id]: 0 });
  });

  test("is in the status of a created container as it was asked for, with the image's id", async () => {
    await using shim = await start();
    const mounts = [volume({ image_sub_path: "current" }), mount()];
    shim.world.host.paths.set("/srv/data", "directory");
    const id = await create(shim, await shim.runSandbox(), "main", mounts);
    const { status } = await shim.rpcs.ContainerStatus({ container_id: id, verbose: false }, shim.call());
    const shown = status?.mounts?.find((one) => one.container_path === "/model");
    assert.deepEqual(shown, {
      ...{ container_path: "/model", readonly: true, image_sub_path: "current" },
      image: { ...imageSpec("model:1"), image_ref: modelId },
    });
    assert.deepEqual(Object.keys(status?.labels ?? {}), ["tier"]);
  });

  test("is one for all who ask at the same time and later, and goes with the last of them", async () => {
    await using shim = await start();
    const sandbox = await shim.runSandbox();
    const ids = await Promise.all(["a", "b", "c"].map((name) => create(shim, sandbox, name)));
    ids.push(await create(shim, sandbox, "d"));
    assert.equal(made(shim).volumes.length, 1);
    for (const id of ids.slice(1)) await shim.removeContainer(id);
    assert.deepEqual([made(shim).volumes.length, made(shim).pins], [1, 1]);
    await shim.removeContainer(ids[0] ?? "");
    assert.deepEqual(made(shim), nothing);
    await create(shim, sandbox, "main");
    await shim.removeSandbox(sandbox);
    assert.deepEqual(made(shim), nothing, "it goes with its sandbox");
  });

  for (const [verb, prefix] of [
    ["createContainer", "k8s_main"],
    ["createContainer", "dockershim-image-"],
    ["statArchive", ""],
  ] as const) {
    test(`leaves nothing behind when the caller leaves during ${verb} ${prefix}`, async () => {
      await using shim = await start(undefined, { keepMs: 1 });
      const sandbox = await shim.runSandbox();
      const isIt = (called: string, [name]: readonly unknown[]) =>
        called === verb && String(name).startsWith(prefix);
      shim.engine.hangs = isIt;
      const call = shim.call();
      const creating = shim.createContainer(sandbox, { mounts: [volume()] }, call);
      await until("it hangs", () => shim.engine.calls.some((one) => isIt(one.verb, one.args)));
      call.abort(new ShimError("cancelled", "the caller left"));
      release(shim);
      await assert.rejects(creating, { kind: "cancelled" });
      await until("everything is gone", () => isMadeNothing(shim));
      assert.equal(shim.engine.containers.list({ labelKey: "io.kubernetes.sandbox.id" }).length, 0);
    });
  }

  test("is undone when the container cannot be created", async () => {
    await using shim = await start();
    const sandbox = await shim.runSandbox();
    const image = imageSpec("absent:1");
    await rejectsWith(shim.createContainer(sandbox, { image, mounts: [volume()] }), "notFound");
    assert.deepEqual(made(shim), nothing);
  });

  test("is copied when the engine cannot mount the layers", async () => {
    await using shim = await start();
    const sandbox = await shim.runSandbox();
    shim.engine.failNext("statArchive", new ShimError("unknown", "the engine answered with HTTP status 500"));
    await create(shim, sandbox, "main");
    assert.equal(shim.log.lines.filter((line) => /copying/.test(JSON.stringify(line))).length, 1);
    const copies = [...shim.engine.containers.volumes.values()].map(({ copyOf, options }) => [
      copyOf,
      options,
    ]);
    assert.deepEqual(copies, [[modelId, {}]]);
  });
});

describe("the sub path of an image volume", () => {
  const lowerdir = async (subPath: string): Promise<string> => {
    await using shim = await start();
    await create(shim, await shim.runSandbox(), "main", [volume({ image_sub_path: subPath })]);
    const [made] = shim.engine.containers.volumes.entries();
    const [name = "", { options = {}, copyOf = "" } = {}] = made ?? [];
    return copyOf === "" ? (options["o"] ?? "").replaceAll(name, "NAME") : "a copy";
  };

  for (const [subPath, expected] of [
    ["weights", "ro,lowerdir=/d/base/diff/weights:/var/lib/docker/volumes/NAME/_data"],
    ["./current/", "ro,lowerdir=/d/base/diff/weights:/var/lib/docker/volumes/NAME/_data"],
    ["both", "a copy"],
  ] as const) {
    test(`"${subPath}" is ${expected}`, async () => assert.equal(await lowerdir(subPath), expected));
  }

  for (const [subPath, reason] of [
    ["absent", /^ImageVolumeMountFailed: create container .*sub path "absent": no such directory/],
    ["file", /^ImageVolumeMountFailed: .*"\/file" is not a directory/],
  ] as const) {
    test(`"${subPath}" is refused, and nothing is left`, async () => {
      await using shim = await start();
      const sandbox = await shim.runSandbox();
      const mounts = [volume({ image_sub_path: subPath })];
      await rejectsWith(create(shim, sandbox, "main", mounts), "precondition", reason);
      assert.deepEqual(made(shim), nothing);
    });
  }

  test("is the engine's matter from API 1.45 on, in a volume of the whole image", async () => {
    await using shim = await start(({ engine }) => (engine.facts = { ...engine.facts, apiMinor: 45 }));
    const sandbox = await shim.runSandbox();
    const mounts = ["current", "both"].map((path) =>
      volume({ image_sub_path: path, container_path: `/${path}` }),
    );
    const id = await create(shim, sandbox, "main", mounts);
    assert.equal(made(shim).volumes.length, 1);
    const { Mounts = [] } = shim.engine.containers.get(id).body.HostConfig;
    assert.deepEqual(
      Mounts.map((one) => one.VolumeOptions?.Subpath),
      ["weights", "both"],
    );
  });
});

test("an engine that mounts images itself is told to; there is no volume, and the image is in use all the same", async () => {
  await using shim = await start(({ engine }) => {
    engine.facts = { ...engine.facts, apiMinor: 48, engineVersion: "28.0.4" };
  });
  const sandbox = await shim.runSandbox();
  const id = await create(shim, sandbox, "main", [volume({ image_sub_path: "current" })]);
  assert.deepEqual(shim.engine.containers.get(id).body.HostConfig.Mounts, [
    { Type: "image", Source: modelId, Target: "/model", ImageOptions: { Subpath: "weights" } },
  ]);
  assert.deepEqual(made(shim), nothing);
  await rejectsWith(removeModel(shim), "precondition", /uses it as an image volume/);
  await shim.removeContainer(id);
  await removeModel(shim);
});

describe("a copied image volume", () => {
  const otherDriver = ({ engine }: World): void => {
    engine.images.add({ id: modelId, tags: ["model:1"], snapshot: { graphDriverName: "btrfs" } });
  };

  const copies = ({ engine }: TestShim) => engine.calls.filter(({ verb }) => verb === "copyDirectory");

  /** A create whose caller leaves while the engine copies. */
  async function leaveDuringCopy(shim: TestShim, sandbox: string): Promise<void> {
    shim.engine.hangs = (verb) => verb === "copyDirectory";
    const call = shim.call();
    const creating = shim.createContainer(sandbox, { mounts: [volume()] }, call);
    await until("it is copied", () => copies(shim).length > 0);
    call.abort(new ShimError("timeout", "too late"));
    await assert.rejects(creating, { kind: "timeout" });
  }

  test("is filled once, through a container that is gone afterwards", async () => {
    await using shim = await start(otherDriver);
    const sandbox = await shim.runSandbox();
    for (const name of ["a", "b"]) await create(shim, sandbox, name);
    assert.equal(copies(shim).length, 1);
    assert.deepEqual([made(shim).volumes.length, made(shim).pins, made(shim).scratch], [1, 1, 0]);
  });

  test("that hangs holds up containers with a volume of that image, and nothing of other images", async () => {
    const otherId = `sha256:${"f".repeat(64)}`;
    await using shim = await start((world) => {
      otherDriver(world);
      const snapshot = { graphDriverName: "btrfs" };
      world.engine.images.add({ id: otherId, tags: ["other:1"], snapshot });
      world.engine.images.add({ id: `sha256:${"d".repeat(64)}`, tags: ["unused:1"], snapshot });
    });
    const sandbox = await shim.runSandbox();
    const other = await shim.runSandbox(runRequest({ metadata: podMetadata("other") }));
    shim.engine.hangs = (verb, [from]) => verb === "copyDirectory" && from === copies(shim)[0]?.args[0];
    const ended: string[] = [];
    const waiting = ["a", "b"].map((name) => create(shim, sandbox, name).then(() => ended.push(name)));
    await until("it is copied", () => copies(shim).length === 1);

    await create(shim, other, "without", []);
    await create(shim, other, "with", [volume({ image: imageSpec("other:1") })]);
    const removal = removeModel(shim).catch(() => ended.push("removal"));
    await turns(20);
    await shim.rpcs.RemoveImage({ image: imageSpec("unused:1") }, shim.call());
    assert.equal(shim.engine.images.find("unused:1"), undefined);
    assert.deepEqual(ended, []);
    release(shim);
    await Promise.all([...waiting, removal]);
    assert.deepEqual(ended.sort(), ["a", "b", "removal"]);
    assert.equal(copies(shim).length, 2);
  });

  test("goes on when its caller leaves, so that the next one finds it", async () => {
    await using shim = await start(otherDriver);
    const sandbox = await shim.runSandbox();
    await leaveDuringCopy(shim, sandbox);
    const second = create(shim, sandbox, "main");
    release(shim);
    await second;
    assert.equal(copies(shim).length, 1);
  });

  test("is removed after a while when the kubelet does not try again", async () => {
    await using shim = await start(otherDriver, { keepMs: 1 });
    await leaveDuringCopy(shim, await shim.runSandbox());
    release(shim);
    await until("it is gone", () => made(shim).volumes.length === 0);
  });

  test("is not being removed any more once stop() has returned", async () => {
    await using shim = await start(otherDriver, { keepMs: 1 });
    await leaveDuringCopy(shim, await shim.runSandbox());
    const earlier = shim.engine.calls.length;
    shim.engine.hangs = (verb) => verb === "listContainers";
    shim.engine.up();
    await until("its removal", () =>
      shim.engine.calls.slice(earlier).some(({ verb }) => verb === "listContainers"),
    );
    const before = shim.log.lines.length;
    await shim.services.images.volumes.stop();
    const said = shim.log.lines.slice(before).map(({ message }) => message);
    assert.deepEqual(said, ["clean-up of image volumes failed"], "stop() ended it and waited for its end");
  });

  test("that failed leaves nothing", async () => {
    await using shim = await start(otherDriver);
    const sandbox = await shim.runSandbox();
    shim.engine.failNext("copyDirectory", new ShimError("unknown", "no space left on device"));
    const message = /^ImageVolumeMountFailed: .*no space left on device/;
    await rejectsWith(create(shim, sandbox, "main"), "unknown", message);
    assert.deepEqual(made(shim), nothing);
  });

  test("that was not finished before a kill is made anew; one that containers have is not", async () => {
    await using shim = await start(otherDriver);
    const sandbox = await shim.runSandbox();
    const id = await create(shim, sandbox, "a");
    const [name = ""] = made(shim).volumes;
    await using second = await shim.restart();
    await create(second, sandbox, "b");
    assert.equal(copies(shim).length, 1);
    // As a kill leaves it: pin and volume, and no container that has it.
    for (const { id: user } of shim.engine.containers.list({ labelKey: "io.kubernetes.sandbox.id" }))
      shim.engine.containers.remove(user, { force: true });
    await until("it is known to be gone", () => second.services.state.model.container(id) === undefined);
    await using third = await second.restart();
    await create(third, sandbox, "c");
    assert.deepEqual([copies(shim).length, made(third).volumes], [2, [name]]);
  });
});

describe("an image that is an image volume", () => {
  test("cannot be removed until the container is", async () => {
    await using shim = await start();
    const id = await create(shim, await shim.runSandbox(), "main");
    const refused = new RegExp(
      `^cannot remove image "model:1": container "${id}" uses it as an image volume`,
    );
    await rejectsWith(removeModel(shim), "precondition", refused);
    await shim.removeContainer(id);
    await removeModel(shim);
    assert.equal(shim.engine.images.find(modelId), undefined);
  });

  test("cannot be removed while a container of it is created", async () => {
    await using shim = await start();
    const sandbox = await shim.runSandbox();
    shim.engine.hangs = (verb, [name]) => verb === "createContainer" && String(name).startsWith("k8s_");
    const creating = create(shim, sandbox, "main");
    await until("it is created", () => made(shim).pins === 1);
    await rejectsWith(removeModel(shim), "precondition", /being created/);
    release(shim);
    await creating;
  });

  test("can be removed although an unused volume is left", async () => {
    await using shim = await start();
    const id = await create(shim, await shim.runSandbox(), "main");
    // Not by us.
    shim.engine.containers.remove(id, { force: true });
    await until("it is known", () => shim.services.state.model.container(id) === undefined);
    await removeModel(shim);
    assert.deepEqual(made(shim), nothing);
  });

  test("must be there, and its absence is not that of the container's image", async () => {
    await using shim = await start();
    const creating = create(shim, await shim.runSandbox(), "main", [
      volume({ image: imageSpec("absent:1") }),
    ]);
    await rejectsWith(creating, "precondition", /^ImageVolumeMountFailed: .*no such image "absent:1"/);
  });
});

describe("the end of a container", () => {
  const gone = (shim: TestShim): Promise<void> => until("nothing is left", () => isMadeNothing(shim));

  test("that another program removed takes its image volume along", async () => {
    await using shim = await start();
    const id = await create(shim, await shim.runSandbox(), "main");
    shim.engine.containers.remove(id, { force: true });
    await gone(shim);
  });

  for (const verb of ["removeContainer", "inspectContainer"]) {
    test(`takes its image volume along when the caller left during ${verb}`, async () => {
      await using shim = await start();
      const id = await create(shim, await shim.runSandbox(), "main");
      const isIt = (called: string, [first]: readonly unknown[]): boolean => called === verb && first === id;
      shim.engine.hangs = isIt;
      const call = shim.call();
      const removing = shim.rpcs.RemoveContainer({ container_id: id }, call);
      removing.catch(() => undefined);
      await until("it hangs", () =>
        verb === "inspectContainer"
          ? shim.engine.containers.find(id) === undefined
          : shim.engine.calls.some((one) => isIt(one.verb, one.args)),
      );
      await turns(3);
      call.abort(new ShimError("timeout", "too late"));
      release(shim);
      await removing.catch(() => undefined);
      // The engine goes on with what it was asked for.
      if (shim.engine.containers.find(id)) shim.engine.containers.remove(id, { force: true });
      await gone(shim);
    });
  }

  test("takes its image volume along when the pin was pruned", async () => {
    await using shim = await start();
    const id = await create(shim, await shim.runSandbox(), "main");
    shim.engine.containers.lose(made(shim).volumes[0] ?? "");
    await shim.removeContainer(id);
    assert.deepEqual(made(shim), nothing);
  });

  test("removes no volume that is not ours, whatever the container's label says", async () => {
    await using shim = await start();
    shim.engine.containers.volumes.set("foreign", { labels: {} });
    const one = { containerPath: "/a", image: "model:1", imageId: modelId, subPath: "", volume: "foreign" };
    const label = JSON.stringify([one]);
    shim.services.images.volumes.containerGone({ "dockershim.image-mounts": label });
    await shim.services.images.volumes.released(shim.call().signal);
    assert.deepEqual(made(shim).volumes, ["foreign"]);
  });
});

test("what is made while the engine's volumes are looked through stays, also when its pin was not listed yet", async () => {
  await using shim = await start();
  const sandbox = await shim.runSandbox();
  shim.engine.hangs = (verb, [name]) => verb === "createContainer" && String(name).startsWith("k8s_");
  const creating = create(shim, sandbox, "main");
  await until("the volume is made", () => made(shim).pins === 1);
  const { store } = (shim.services.images.volumes as unknown as { deps: { store: ImageVolumeStore } }).deps;
  // The list of pins is older than the volume.
  store.pins = () => Promise.resolve([]);
  await shim.services.images.volumes.cleanUp(shim.call().signal);
  assert.deepEqual([made(shim).pins, made(shim).volumes.length], [1, 1]);
  release(shim);
  await creating;
});

test("a pin that appears after its create was given up is removed", async () => {
  await using shim = await start(undefined, { keepMs: 1 });
  const sandbox = await shim.runSandbox();
  const lost = new ShimError("unavailable", "the answer was lost", { answer: "lost" });
  shim.engine.failNext("createContainer", lost);
  await assert.rejects(create(shim, sandbox, "main"), { kind: "unavailable" });
  const creates = shim.world.journal.argsOf("engine.createContainer") as [string, CreateBody][];
  shim.engine.containers.create(...creates.find(([name]) => name.startsWith("dockershim-image-"))!);
  await until("it is gone", () => made(shim).pins === 0);
});

describe("after a start", () => {
  test("removes unused volumes, and keeps used ones, with a pin", async () => {
    await using shim = await start();
    const sandbox = await shim.runSandbox();
    await create(shim, sandbox, "main");
    const kept = made(shim).volumes;
    const gone = await create(shim, sandbox, "other", [volume({ image_sub_path: "weights" })]);
    assert.equal(made(shim).volumes.length, 2);
    shim.engine.containers.lose(gone);
    // As `docker container prune` does.
    shim.engine.containers.lose(kept[0] ?? "");
    await using next = await shim.restart();
    await next.services.images.volumes.cleanUp(next.call().signal);
    assert.deepEqual(made(next), { volumes: kept, pins: 1, scratch: 0 });
    assert.equal(next.engine.containers.get(kept[0] ?? "").imageId, modelId);
  });

  test("volumes of another state directory are let be", async () => {
    await using shim = await start();
    const sandbox = await shim.runSandbox();
    await create(shim, sandbox, "main");
    const foreign = { [imageVolumeLabel]: "elsewhere" };
    shim.engine.containers.volumes.set("foreign", { labels: foreign });
    shim.engine.containers.create("foreign", { Image: "model:1", Labels: foreign, HostConfig: {} });
    await shim.services.images.volumes.cleanUp(shim.call().signal);
    assert.ok(shim.engine.containers.volumes.has("foreign"));
    assert.ok(shim.engine.containers.find("foreign"));
  });
});
