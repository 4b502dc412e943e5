import assert from "node:assert/strict";
import { mkdir, symlink, utimes, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, test } from "node:test";
import {
  imageDirectory,
  layerDirectories,
  WritableLayerDirectories,
} from "../../../src/shim/host/image-storage.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";
import { idOf } from "../../fakes/snapshots.js";
import { FakeProc } from "./fake-proc.js";
import { pluck } from "../../support/pluck.js";

describe("imageDirectory()", () => {
  const database = "io.containerd.snapshotter.v1.overlayfs/metadata.db";
  for (const [what, imageStore, written, expected] of [
    ["with a graph driver the engine's data root", "graph", ["system", "own"], "docker"],
    ["the engine's own containerd", "containerd", ["own"], "docker/containerd/daemon"],
    ["the host's containerd", "containerd", ["system"], "system"],
    ["of two containerds the last written", "containerd", ["own", "system"], "system"],
    ["the last written, in the other order", "containerd", ["system", "own"], "docker/containerd/daemon"],
    ["the data root where nothing is found", "containerd", [], "docker"],
  ] as const) {
    test(what, async () => {
      await using directory = await temporaryDirectory();
      const roots = {
        own: join(directory.path, "docker/containerd/daemon"),
        system: join(directory.path, "system"),
      };
      for (const [index, name] of written.entries()) {
        const path = join(roots[name], database);
        await mkdir(dirname(path), { recursive: true });
        await writeFile(path, "");
        await utimes(path, 1000 + index, 1000 + index);
      }
      const facts = { dockerRootDir: join(directory.path, "docker"), imageStore, storageDriver: "overlayfs" };
      assert.equal(await imageDirectory(facts, roots.system), join(directory.path, expected));
    });
  }
});

/** Layers, the top one first; a path that ends in a slash is a directory, one with an arrow a link. */
async function layersIn(root: string, layers: readonly (readonly string[])[]): Promise<readonly string[]> {
  return Promise.all(
    layers.map(async (paths, index) => {
      const layer = join(root, `id${index}`, "diff");
      await mkdir(layer, { recursive: true });
      for (const path of paths) {
        const [name = "", target] = path.split(" -> ");
        await mkdir(name.endsWith("/") ? join(layer, name) : dirname(join(layer, name)), { recursive: true });
        if (target !== undefined) await symlink(target, join(layer, name));
        else if (!name.endsWith("/")) await writeFile(join(layer, name), "");
      }
      return layer;
    }),
  );
}

describe("layerDirectories()", () => {
  for (const [what, layers, path, expected] of [
    ["all layers make up the root", [["a"], ["b"]], "", [0, 1]],
    ["only those that have the directory", [["a"], ["d/e/"], [], ["d/e/x"]], "d/e", [1, 3]],
    ["nothing below a file of that name", [["d/e/"], ["d/e"], ["d/e/"]], "d/e", [0]],
    ["nothing below a file in the place of a parent", [["d/e/"], ["d"], ["d/e/"]], "d/e", [0]],
    ["links are not followed", [["d/e/"], ["d -> f", "f/e/"], ["d/e/"]], "d/e", [0]],
    ["none has it", [["a"], ["d/"]], "d/e", []],
  ] as const) {
    test(what, async () => {
      await using directory = await temporaryDirectory();
      const directories = await layersIn(directory.path, layers);
      const found = await layerDirectories(directories, path);
      const places = expected.map((index) => join(directories[index] ?? "", path));
      assert.deepEqual(found && pluck(found, "path"), places);
    });
  }

  test("a layer that is not there is out of reach", async () => {
    await using directory = await temporaryDirectory();
    const layers = await layersIn(directory.path, [["d/"]]);
    assert.equal(await layerDirectories([...layers, join(directory.path, "absent", "diff")], ""), undefined);
  });
});

const id = idOf("3f");
const snapshot = { id, graphDriver: {}, state: { pid: 100 } };

type Setting = Awaited<ReturnType<typeof setUp>>;

/** `overlay` is a line of a mount table, `mounts` sets that of the node. */
async function setUp() {
  const fake = await FakeProc.make();
  const [dataRoot = "", upper = "", other = ""] = ["docker", "upper", "other"].map((name) =>
    join(fake.directory, name),
  );
  for (const path of [dataRoot, upper, other]) await mkdir(path);
  return {
    fake,
    dataRoot,
    upper,
    other,
    storage: { dockerRootDir: dataRoot, imageStore: "containerd", storageDriver: "overlayfs" } as const,
    overlay: (mountPoint: string, directory: string) =>
      `700 30 0:60 / ${mountPoint} rw,relatime shared:9 - overlay overlay rw,lowerdir=/l,upperdir=${directory},workdir=/w`,
    mounts: (...lines: readonly string[]) =>
      fake.add("self", { files: { mountinfo: `${lines.join("\n")}\n` } }),
    [Symbol.asyncDispose]: () => fake[Symbol.asyncDispose](),
  };
}

describe("WritableLayerDirectories.directoryOf()", () => {
  test("takes the directory of the graph driver, and looks at no mount", async () => {
    await using at = await setUp();
    const directories = new WritableLayerDirectories({ ...at.storage, imageStore: "graph" }, at.fake.proc);
    assert.equal(await directories.directoryOf({ id, graphDriver: { UpperDir: at.upper } }), at.upper);
    await at.mounts(at.overlay(join(at.dataRoot, "rootfs/overlayfs", id), at.upper));
    assert.equal(await directories.directoryOf(snapshot), undefined);
  });

  test("takes the directory of the engine's mount for the container, for each path of the data root", async () => {
    await using at = await setUp();
    await at.mounts(
      "29 1 8:1 / / rw - ext4 /dev/sda rw",
      at.overlay(join(at.dataRoot, "rootfs/overlayfs", idOf("4f")), at.other),
      at.overlay(join(at.dataRoot, "rootfs/overlayfs", id), at.upper),
    );
    const link = join(at.fake.directory, "link");
    await symlink(at.dataRoot, link);
    for (const dockerRootDir of [at.dataRoot, link, `${at.dataRoot}/`]) {
      const directories = new WritableLayerDirectories({ ...at.storage, dockerRootDir }, at.fake.proc);
      assert.equal(await directories.directoryOf(snapshot), at.upper);
    }
  });

  test("does not use the container's own mount table", async () => {
    await using at = await setUp();
    await at.mounts("29 1 8:1 / / rw - ext4 /dev/sda rw");
    await at.fake.add(100, {
      cgroup: `0::/docker/${id}\n`,
      files: { mountinfo: `${at.overlay("/", at.other)}\n` },
    });
    const directories = new WritableLayerDirectories(at.storage, at.fake.proc);
    assert.equal(await directories.directoryOf(snapshot), undefined);
    await at.mounts(at.overlay(join(at.dataRoot, "rootfs/overlayfs", id), at.upper));
    assert.equal(await directories.directoryOf(snapshot), at.upper);
  });

  const untaken: readonly (readonly [what: string, line: (at: Setting) => string])[] = [
    ["elsewhere", (at) => at.overlay(join(at.other, "rootfs/overlayfs", id), at.other)],
    ["below the container's", (at) => at.overlay(join(at.dataRoot, "rootfs/overlayfs", id, "x"), at.other)],
    ["of another snapshotter", (at) => at.overlay(join(at.dataRoot, "rootfs/zfs", id), at.other)],
    [
      "that is no overlay",
      (at) => `7 1 0:6 / ${join(at.dataRoot, "rootfs/overlayfs", id)} rw - tmpfs x rw,upperdir=${at.other}`,
    ],
    ["whose directory is away", (at) => at.overlay(join(at.dataRoot, "rootfs/overlayfs", id), "/no/such")],
  ];
  for (const [what, line] of untaken) {
    test(`takes nothing from a mount ${what}`, async () => {
      await using at = await setUp();
      await at.mounts(line(at));
      const directories = new WritableLayerDirectories(at.storage, at.fake.proc);
      assert.equal(await directories.directoryOf(snapshot), undefined);
    });
  }

  test("reads the mount table only for unknown containers", async () => {
    await using at = await setUp();
    await at.mounts(at.overlay(join(at.dataRoot, "rootfs/overlayfs", id), at.upper));
    const directories = new WritableLayerDirectories(at.storage, at.fake.proc);
    assert.equal(await directories.directoryOf(snapshot), at.upper);
    await at.mounts();
    assert.equal(await directories.directoryOf(snapshot), at.upper);
    assert.equal(await directories.directoryOf({ id: idOf("4f"), graphDriver: {} }), undefined);
    assert.equal(await directories.directoryOf(snapshot), undefined);
  });
});
