import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdir, readFile, stat, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { describe, test } from "node:test";
import { nodeFiles } from "../../../../src/play/containers/files.js";
import { temporaryDirectory } from "../../lib/temporary-directory.js";

async function inDirectory(work: (directory: string) => Promise<void>): Promise<void> {
  await using directory = await temporaryDirectory();
  await work(directory.path);
}

const modeOf = async (path: string): Promise<number> => (await stat(path)).mode & 0o7777;

describe("prepareVolume() of an emptyDir", () => {
  test("makes a directory writable for all users, in a directory that only root may enter", () =>
    inDirectory(async (directory) => {
      const path = join(directory, "uid", "volumes", "v");
      await nodeFiles.prepareVolume({ kind: "emptyDir", path, group: undefined });
      assert.equal(await modeOf(path), 0o777);
      assert.equal((await modeOf(join(directory, "uid"))) & 0o007, 0);
    }));

  test("gives it to the fsGroup, for all that is made inside", () =>
    inDirectory(async (directory) => {
      const path = join(directory, "v");
      const group = process.getgid?.() ?? 0;
      await nodeFiles.prepareVolume({ kind: "emptyDir", path, group });
      assert.equal(await modeOf(path), 0o2777);
      assert.equal((await stat(path)).gid, group);
    }));

  test("keeps existing content and mode", () =>
    inDirectory(async (directory) => {
      const path = join(directory, "v");
      await mkdir(path, { mode: 0o700 });
      await writeFile(join(path, "data"), "x");
      await nodeFiles.prepareVolume({ kind: "emptyDir", path, group: undefined });
      assert.equal(await readFile(join(path, "data"), "utf8"), "x");
      assert.equal(await modeOf(path), 0o700);
    }));
});

describe("prepareVolume() of a hostPath", () => {
  const cases = [
    ["Directory", "directory", undefined],
    ["Directory", "file", /it is no directory/],
    ["Directory", "missing", /no such directory/],
    ["DirectoryOrCreate", "missing", undefined],
    ["DirectoryOrCreate", "file", /it is no directory/],
    ["File", "file", undefined],
    ["File", "directory", /it is no file/],
    ["FileOrCreate", "missing", undefined],
    ["FileOrCreate", "directory", /it is no file/],
    ["Socket", "socket", undefined],
    ["Socket", "file", /it is no socket/],
    ["CharDevice", "file", /it is no character device/],
    ["BlockDevice", "missing", /no such block device/],
    ["", "missing", undefined],
  ] as const;
  for (const [type, there, expected] of cases) {
    test(`${expected === undefined ? "accepts" : "refuses"} ${there} as "${type}"`, () =>
      inDirectory(async (directory) => {
        const path = join(directory, there);
        await mkdir(join(directory, "directory"));
        await writeFile(join(directory, "file"), "");
        const server = createServer();
        await new Promise<void>((resolve) => server.listen(join(directory, "socket"), resolve));
        try {
          const result = nodeFiles.prepareVolume({ kind: "hostPath", path, type });
          if (expected === undefined) await result;
          else await assert.rejects(result, expected);
          const isMade = type.endsWith("OrCreate") || there !== "missing";
          assert.equal(existsSync(path), isMade);
        } finally {
          server.close();
        }
      }));
  }

  test("accepts a device", () =>
    nodeFiles.prepareVolume({ kind: "hostPath", path: "/dev/null", type: "CharDevice" }));
});

describe("resolveSubPath()", () => {
  test("makes missing directories with the volume's mode", () =>
    inDirectory(async (directory) => {
      const volume = join(directory, "v");
      await nodeFiles.prepareVolume({ kind: "emptyDir", path: volume, group: undefined });
      assert.equal(await nodeFiles.resolveSubPath(volume, "a//./b"), join(volume, "a", "b"));
      assert.equal(await modeOf(join(volume, "a", "b")), 0o777);
    }));

  test("follows a link inside the volume", () =>
    inDirectory(async (directory) => {
      await mkdir(join(directory, "v", "real"), { recursive: true });
      await symlink("real", join(directory, "v", "link"));
      assert.equal(
        await nodeFiles.resolveSubPath(join(directory, "v"), "link/x"),
        join(directory, "v", "real", "x"),
      );
    }));

  for (const [what, target] of [
    ["an absolute link", "/etc"],
    ["a relative link", "../secret"],
    ["a link to a directory whose name begins alike", "../volume2"],
  ] as const) {
    test(`refuses ${what} that leads out of the volume`, () =>
      inDirectory(async (directory) => {
        for (const name of ["volume", "volume2", "secret"]) await mkdir(join(directory, name));
        await symlink(target, join(directory, "volume", "link"));
        const result = nodeFiles.resolveSubPath(join(directory, "volume"), "link/x");
        await assert.rejects(result, /a link leads out of the volume/);
        assert.equal(existsSync(join(directory, "secret", "x")), false);
      }));
  }
});

describe("firstAbove()", () => {
  test("finds the directories that contain a path, through links, too, and not the path itself", () =>
    inDirectory(async (directory) => {
      const volume = join(directory, "v");
      await mkdir(join(volume, "a", "b"), { recursive: true });
      await mkdir(join(volume, "a", "b", "c"));
      await mkdir(join(volume, "other"));
      await writeFile(join(volume, "file"), "");
      await symlink("v", join(directory, "alias"));
      const path = join(volume, "a", "b");
      for (const above of [volume, join(volume, "a"), join(directory, "alias", "a"), directory, "/"])
        assert.equal(await nodeFiles.firstAbove(path, ["/no/such/path", above]), above);
      const not = ["", "c", "../../other", "../../file"].map((name) => join(path, name));
      assert.equal(await nodeFiles.firstAbove(path, not), undefined);
    }));
});

test("removeTree() accepts a directory that is not there", () =>
  inDirectory((directory) => nodeFiles.removeTree(join(directory, "missing"))));

test("removeTree() does not follow links", () =>
  inDirectory(async (directory) => {
    await mkdir(join(directory, "kept"));
    await writeFile(join(directory, "kept", "file"), "");
    await mkdir(join(directory, "pod"));
    await symlink(join(directory, "kept"), join(directory, "pod", "link"));
    await nodeFiles.removeTree(join(directory, "pod"));
    assert.ok(existsSync(join(directory, "kept", "file")));
    assert.ok(!existsSync(join(directory, "pod")));
  }));

test("removeTree() refuses while something is mounted below", async () => {
  await assert.rejects(nodeFiles.removeTree("/proc"), /still mounted below it: "\/proc"/);
});

test("writeFile() keeps the inode of a file that is there, and sets its mode", () =>
  inDirectory(async (directory) => {
    const path = join(directory, "a", "hosts");
    await nodeFiles.writeFile(path, "long text", 0o666);
    const { ino } = await stat(path);
    await nodeFiles.writeFile(path, "x", 0o666);
    assert.equal((await stat(path)).ino, ino);
    assert.equal(await readFile(path, "utf8"), "x");
    assert.equal(await modeOf(path), 0o666);
  }));

test("readTail() reads the end of a file, or nothing", () =>
  inDirectory(async (directory) => {
    await writeFile(join(directory, "log"), "abcdef");
    assert.equal(await nodeFiles.readTail(join(directory, "log"), 3), "def");
    assert.equal(await nodeFiles.readTail(join(directory, "log"), 100), "abcdef");
    assert.equal(await nodeFiles.readTail(join(directory, "missing"), 3), "");
  }));
