/** Files of play on an engine elsewhere: a fake engine, the real program, and a directory as its volumes. */
import assert from "node:assert/strict";
import { chmod, readFile, readdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { claimVolume, podsVolume } from "../../../../src/play/pod-config/volume-names.js";
import type { VolumePreparation } from "../../../../src/play/pod-config/volumes.js";
import { ShimError } from "../../../../src/lib/errors.js";
import { inVolumes, skip } from "./engine-with-program.js";

const claim = (volumesPath: string, name: string): VolumePreparation => ({
  kind: "claim",
  path: join(volumesPath, claimVolume("default", name), "_data"),
  ...{ group: undefined, trustRoot: false, claim: `default/${name}` },
});
const emptyDir = (path: string, memoryBytes?: bigint) =>
  ({ kind: "emptyDir", path, group: undefined, memoryBytes }) as const;

describe("EngineFiles", { skip }, () => {
  test("makes the helper when it is needed, with no network and few rights", () =>
    inVolumes(async ({ engine, files, pod, volumesPath }) => {
      assert.equal(engine.helper(), undefined);
      await files.writeFile(join(pod, "etc-hosts"), "text", 0o644);
      assert.equal(await readFile(join(pod, "etc-hosts"), "utf8"), "text");
      assert.equal((await stat(pod)).mode & 0o777, 0o750);
      const { NetworkMode, ReadonlyRootfs, CapDrop, Mounts } = engine.helper()?.body.HostConfig ?? {};
      assert.deepEqual([NetworkMode, ReadonlyRootfs, CapDrop], ["none", true, ["ALL"]]);
      const rows = Mounts?.map(({ Type, Source }) => [Type, Source]);
      assert.deepEqual(rows, [
        ["bind", volumesPath],
        ["volume", podsVolume],
      ]);
      assert.equal(await files.rewriteFile(join(pod, "etc-hosts"), "new"), true);
      assert.equal(await files.readTail(join(pod, "etc-hosts"), 2), "ew");
      assert.equal(await files.readTail("/proc/self/status", 100), "");
      assert.equal(engine.children.length, 1);
    }));

  test("uses the helper of another play, and makes it anew when that has removed it", () =>
    inVolumes(async ({ engine, files, other, pod }) => {
      await Promise.all([files, other].map((one) => one.writeFile(join(pod, "f"), "text", 0o644)));
      const id = engine.helper()?.id;
      // Both may have tried to make it: the name lets one of them.
      assert.notEqual(id, undefined);
      await other.removeTree(pod);
      assert.equal(engine.helper(), undefined);
      await files.writeFile(join(pod, "f"), "again", 0o644);
      assert.notEqual(engine.helper()?.id, id);
      assert.equal(await readFile(join(pod, "f"), "utf8"), "again");
    }));

  test("removes the helper with the last pod", () =>
    inVolumes(async ({ engine, files, pod }) => {
      await files.prepareVolume(emptyDir(join(pod, "volumes/empty-dir/a")));
      await files.prepareVolume(emptyDir(join(`${pod}2`, "volumes/empty-dir/a")));
      await files.removeTree(pod);
      assert.equal(engine.helper()?.state.running, true);
      await files.removeTree(`${pod}2`);
      assert.equal(engine.helper(), undefined);
    }));

  test("removes a helper that has got no pod when play ends", () =>
    inVolumes(async ({ engine, files, pod, other }) => {
      await files.mounting();
      await files[Symbol.asyncDispose]();
      assert.equal(engine.helper(), undefined);
      await other.writeFile(join(pod, "f"), "", 0o644);
      await other[Symbol.asyncDispose]();
      assert.notEqual(engine.helper(), undefined);
    }));

  test("has the helper hold each claim's volume, which is open to all users once", () =>
    inVolumes(async ({ engine, files, pod, volumesPath }) => {
      await files.writeFile(join(pod, "f"), "", 0o644);
      const volume = claim(volumesPath, "data");
      await Promise.all([files.prepareVolume(volume), files.prepareVolume(claim(volumesPath, "b"))]);
      assert.equal((await stat(volume.path)).mode & 0o7777, 0o777);
      const held = engine.helper()?.body.HostConfig.Mounts?.map(({ Source }) => Source);
      assert.deepEqual(held?.slice(1), [
        podsVolume,
        claimVolume("default", "b"),
        claimVolume("default", "data"),
      ]);
      assert.deepEqual(engine.containers.volumes.get(claimVolume("default", "data"))?.labels, {
        "dockershim.play": "claim",
        "dockershim.play.claim": "default/data",
      });
    }));

  test("leaves a claim as it is that has more names than fit into an answer of the helper", () =>
    inVolumes(async ({ files, volumesPath }) => {
      const volume = claim(volumesPath, "data");
      await files.prepareVolume(volume);
      await chmod(volume.path, 0o755);
      const names = Array.from({ length: 2200 }, (_, index) => String(index).padStart(250, "x"));
      for (const name of names) await writeFile(join(volume.path, name), "");
      await files.prepareVolume(volume);
      assert.equal((await stat(volume.path)).mode & 0o7777, 0o755);
    }));

  test("without shared mounts refuses memory, keeps Secrets on disk and finds parts of them", () =>
    inVolumes(async ({ engine, files, pod, reports }) => {
      engine.startFailure = () =>
        engine.propagation() === "rshared"
          ? new ShimError("unknown", "path /x is mounted on / but it is not a shared mount")
          : undefined;
      assert.match((await files.mounting()).missing ?? "", /mounts of the engine's host are not shared/);
      assert.equal(engine.propagation(), "rprivate");
      assert.match(reports.join(), /Secrets are on the disk/);
      await assert.rejects(files.prepareVolume(emptyDir(join(pod, "volumes/empty-dir/m"), 1024n)), {
        kind: "unsupported",
      });
      const path = join(pod, "volumes/secret/s");
      const content = new Map([["a/key", { content: Buffer.from("hush"), mode: 0o400 }]]);
      await files.prepareVolume({
        kind: "files",
        path,
        group: undefined,
        memoryBytes: 1024n,
        files: content,
        mountPoints: ["b/c"],
      });
      const part = await files.mountSubPath(path, "a/key", join(pod, "volumes/sub-paths/s/c/0"));
      assert.match(part, /\/volumes\/secret\/s\/\.\.2[^/]*\/a\/key$/);
      assert.equal(await readFile(part, "utf8"), "hush");
      assert.ok((await stat(join(path, "b/c"))).isDirectory());
      const disk = join(pod, "volumes/empty-dir/d");
      await files.prepareVolume(emptyDir(disk));
      await assert.rejects(files.mountSubPath(disk, "x", join(pod, "t")), { kind: "unsupported" });
      assert.deepEqual(await readdir(disk), []);
    }));

  test("asks the engine for paths of its host", () =>
    inVolumes(async ({ engine, files, reports }) => {
      const check = (type: "" | "Directory" | "FileOrCreate") =>
        files.prepareVolume({ kind: "hostPath", path: "/somewhere", type });
      await check("");
      await check("Directory"); // No such image: the path is there.
      assert.equal(reports.length, 1);
      const reason = 'invalid mount config for type "bind": bind source path does not exist: /somewhere';
      engine.failNext("createContainer", new ShimError("invalid", reason));
      await assert.rejects(check("Directory"), /use hostPath "\/somewhere": not on the engine's host/);
      await assert.rejects(check("FileOrCreate"), { kind: "unsupported" });
    }));

  test("refuses a volume that lies elsewhere", () =>
    inVolumes(async ({ engine, files, pod }) => {
      engine.createVolume = () => Promise.resolve({ mountpoint: "/mnt/x", driver: "nfs" });
      await assert.rejects(
        files.writeFile(join(pod, "f"), "", 0o644),
        /use volume "dockershim-play": it is at "\/mnt\/x" by driver "nfs"/,
      );
    }));
});
