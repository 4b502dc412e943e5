/** Files of play on an engine elsewhere whose disk is full, that vanishes, or that has another program's things. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { readFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import { Writable } from "node:stream";
import { describe, test } from "node:test";
import { mountMemory, unmount } from "../../../../src/lib/linux/helper-verbs.js";
import type { VolumePreparation } from "../../../../src/play/pod-config/volumes.js";
import { helperName } from "../../../../src/play/pod-config/volume-names.js";
import { ShimError } from "../../../../src/lib/errors.js";
import { withoutMounts } from "../node/can-mount.js";
import { type Bed, type EngineWithProgram, inVolumes, skip } from "./engine-with-program.js";

const diskBytes = 1024 * 1024;
const named = /at ssh:\/\/root@far \(context "lab"\)/;

/** A configMap of two keys. */
function filesVolume(path: string, bytes: number): VolumePreparation {
  const files = new Map(
    ["a", "b"].map((key) => [key, { content: Buffer.alloc(bytes, key), mode: 0o644 }] as const),
  );
  return { kind: "files", path, group: undefined, memoryBytes: undefined, files, mountPoints: [] };
}

/** The volumes are on a disk of their own, with 1 MiB. */
async function onSmallDisk(work: (bed: Bed) => Promise<void>): Promise<void> {
  await inVolumes(async (bed) => {
    await mountMemory(bed.volumesPath, `size=${diskBytes}`);
    try {
      await work(bed);
    } finally {
      await bed.files[Symbol.asyncDispose]();
      for (const child of bed.engine.children) child.kill("SIGKILL");
      await Promise.all(bed.engine.children.map(async (child) => child.exitCode ?? once(child, "exit")));
      await unmount(bed.volumesPath);
    }
  });
}

/** Once the program has got so much, it is gone; `then` says what becomes of the engine. */
function vanishAfter(bytes: number, engine: EngineWithProgram, then: () => void): void {
  engine.onInput = (input, child) => {
    input.on("error", () => undefined);
    let count = 0;
    return new Writable({
      write: (chunk: Buffer, _, done) => {
        count += chunk.length;
        if (count <= bytes) {
          input.write(chunk, () => done());
          return;
        }
        engine.onInput = (next) => next;
        input.write(chunk.subarray(0, chunk.length / 2), () => {
          child.kill("SIGKILL");
          then();
          done();
        });
      },
    });
  };
}

describe("a full disk of the engine's host", { skip: skip === false ? withoutMounts() : skip }, () => {
  test("is said with the context and the next step, and nothing half-made stays", () =>
    onSmallDisk(async ({ engine, files, pod }) => {
      const path = join(pod, "volumes/config-map/c");
      for (const attempt of [1, 2]) {
        await assert.rejects(files.prepareVolume(filesVolume(path, diskBytes)), (error: Error) => {
          assert.match(error.message, /no space left on device, .*; the engine's host/);
          assert.match(error.message, named);
          assert.match(error.message, /docker image prune/);
          return true;
        });
        assert.deepEqual(await readdir(path), [], `after attempt ${attempt}`);
      }
      const hosts = join(pod, "etc-hosts");
      await assert.rejects(files.writeFile(hosts, "x".repeat(2 * diskBytes), 0o644), { kind: "exhausted" });
      await assert.rejects(readFile(hosts), { code: "ENOENT" });
      // The program serves on, and a volume keeps its old files.
      assert.equal(engine.children.length, 1);
      await files.prepareVolume(filesVolume(path, 1000));
      const before = await readdir(path);
      await assert.rejects(files.prepareVolume(filesVolume(path, diskBytes)), { kind: "exhausted" });
      assert.deepEqual(await readdir(path), before);
      assert.equal((await readFile(join(path, "b"))).length, 1000);
    }));

  for (const verb of ["loadImage", "createContainer", "createExec"] as const)
    test(`in ${verb} leaves no helper`, () =>
      inVolumes(async ({ engine, files, pod }) => {
        engine.failNext(
          verb,
          new ShimError("unknown", "write /var/lib/docker/tmp/x: no space left on device"),
        );
        await assert.rejects(files.writeFile(join(pod, "f"), "", 0o644), (error: Error) => {
          assert.match(error.message, named);
          return true;
        });
        assert.equal(engine.helper(), undefined);
      }));

  test("in the start of the helper leaves none", () =>
    inVolumes(async ({ engine, files, pod }) => {
      engine.startFailure = () => new ShimError("unknown", "mkdir /run/x: no space left on device");
      await assert.rejects(files.writeFile(join(pod, "f"), "", 0o644), {
        message: /start container "dockershim-play-files": mkdir .*context "lab".*docker image prune/,
      });
      assert.equal(engine.helper(), undefined);
    }));
});

describe("an engine that vanishes in the middle of a copy", { skip }, () => {
  const size = 700 * 1024;

  test("is named, and the next application leaves nothing of the first one", () =>
    inVolumes(async ({ engine, files, pod }) => {
      const path = join(pod, "volumes/config-map/c");
      vanishAfter(size, engine, () => engine.down());
      await assert.rejects(files.prepareVolume(filesVolume(path, size)), (error: ShimError) => {
        assert.equal(error.kind, "unavailable");
        assert.match(error.message, named);
        return true;
      });
      const [halfMade, ...others] = await readdir(path);
      assert.match(halfMade ?? "", /^\.\.2/); // Containers see no key of it.
      assert.deepEqual(others, []);
      engine.up();
      await files.prepareVolume(filesVolume(path, size));
      await assertComplete(path, halfMade);
    }));

  test("and whose connection alone breaks is asked again at once", () =>
    inVolumes(async ({ engine, files, pod }) => {
      const path = join(pod, "volumes/config-map/c");
      vanishAfter(size, engine, () => undefined);
      await files.prepareVolume(filesVolume(path, size));
      await assertComplete(path, undefined);
      assert.equal(engine.children.length, 2);
    }));

  async function assertComplete(path: string, halfMade: string | undefined): Promise<void> {
    const names = (await readdir(path)).sort();
    assert.deepEqual(names.slice(1), ["..data", "a", "b"]);
    assert.notEqual(names[0], halfMade);
    for (const key of ["a", "b"])
      assert.ok((await readFile(join(path, key))).equals(Buffer.alloc(size, key)), key);
  }
});

test("a container of another program with the helper's name stays", { skip }, () =>
  inVolumes(async ({ engine, files, pod }) => {
    engine.images.add({ tags: ["tool:1"] });
    const id = engine.containers.create(helperName, { Image: "tool:1", Labels: {}, HostConfig: {} });
    await assert.rejects(files.writeFile(join(pod, "f"), "", 0o644), {
      kind: "conflict",
      message: /another program's container has this name; rename or remove it/,
    });
    assert.equal(engine.helper()?.id, id);
  }),
);
