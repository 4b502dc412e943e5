import assert from "node:assert/strict";
import { mkdir, symlink } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { type EngineStorage, WritableLayerDirectories } from "../../../src/shim/host/writable-layer.js";
import { idOf } from "../../fakes/snapshots.js";
import { FakeProc } from "./fake-proc.js";

const id = idOf("3f");
const snapshot = { id, graphDriver: {}, state: { pid: 100 } };

interface Setting extends AsyncDisposable {
  readonly fake: FakeProc;
  /** Directories of the host. */
  readonly dataRoot: string;
  readonly upper: string;
  readonly other: string;
  readonly storage: EngineStorage;
  /** A line of a mount table. */
  overlay(mountPoint: string, upper: string): string;
  /** Sets the mount table of the node. */
  mounts(...lines: readonly string[]): Promise<void>;
}

async function setUp(): Promise<Setting> {
  const fake = await FakeProc.make();
  const [dataRoot = "", upper = "", other = ""] = ["docker", "upper", "other"].map((name) =>
    join(fake.directory, name),
  );
  for (const path of [dataRoot, upper, other]) await mkdir(path);
  return {
    ...{ fake, dataRoot, upper, other },
    storage: { dockerRootDir: dataRoot, imageStore: "containerd", storageDriver: "overlayfs" },
    overlay: (mountPoint, directory) =>
      `700 30 0:60 / ${mountPoint} rw,relatime shared:9 - overlay overlay rw,lowerdir=/l,upperdir=${directory},workdir=/w`,
    mounts: (...lines) => fake.add("self", { files: { mountinfo: `${lines.join("\n")}\n` } }),
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

  test("takes that of the engine's mount for the container, whatever the data root is called", async () => {
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

  test("does not believe what the container says of its own root", async () => {
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
    [
      "below the container's mount",
      (at) => at.overlay(join(at.dataRoot, "rootfs/overlayfs", id, "x"), at.other),
    ],
    ["of another snapshotter", (at) => at.overlay(join(at.dataRoot, "rootfs/zfs", id), at.other)],
    [
      "that is no overlay",
      (at) => `7 1 0:6 / ${join(at.dataRoot, "rootfs/overlayfs", id)} rw - tmpfs x rw,upperdir=${at.other}`,
    ],
    [
      "whose directory is not here",
      (at) => at.overlay(join(at.dataRoot, "rootfs/overlayfs", id), "/no/such"),
    ],
  ];
  for (const [what, line] of untaken) {
    test(`takes nothing from a mount ${what}`, async () => {
      await using at = await setUp();
      await at.mounts(line(at));
      assert.equal(
        await new WritableLayerDirectories(at.storage, at.fake.proc).directoryOf(snapshot),
        undefined,
      );
    });
  }

  test("reads the mount table for containers only that it does not know", async () => {
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
