import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { existsSync } from "node:fs";
import { chmod, chown, mkdir, readFile, rename, stat, statfs, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { describe, test } from "node:test";
import { nodeFiles } from "../../../../src/play/node/files.js";
import { mountMemory, unmount } from "../../../../src/lib/linux/helper-verbs.js";
import { mountPointsBelow } from "../../../../src/play/node/mounts.js";
import { temporaryDirectory } from "../../lib/temporary-directory.js";
import { withoutMounts } from "./can-mount.js";

async function inDirectory(work: (directory: string) => Promise<void>): Promise<void> {
  await using directory = await temporaryDirectory();
  await work(directory.path);
}

const modeOf = async (path: string): Promise<number> => (await stat(path)).mode & 0o7777;

const emptyDir = (path: string, changes: { readonly group?: number; readonly memoryBytes?: bigint } = {}) =>
  ({ kind: "emptyDir", path, group: undefined, memoryBytes: undefined, ...changes }) as const;

test("prepareVolume() makes an emptyDir that all users may write, below a directory for root alone", () =>
  inDirectory(async (directory) => {
    const path = join(directory, "uid", "volumes", "v");
    await nodeFiles.prepareVolume(emptyDir(path));
    assert.equal(await modeOf(path), 0o777);
    assert.equal((await modeOf(join(directory, "uid"))) & 0o007, 0);
    const group = process.getgid?.() ?? 0;
    await nodeFiles.prepareVolume(emptyDir(`${path}2`, { group }));
    assert.deepEqual([await modeOf(`${path}2`), (await stat(`${path}2`)).gid], [0o2777, group]);
    await writeFile(join(path, "data"), "x");
    await chmod(path, 0o700);
    await nodeFiles.prepareVolume(emptyDir(path));
    assert.deepEqual([await readFile(join(path, "data"), "utf8"), await modeOf(path)], ["x", 0o700]);
  }));

describe("prepareVolume() of a hostPath", () => {
  const cases = [
    ["Directory", "directory", undefined],
    ["Directory", "file", /it is not a directory/],
    ["Directory", "missing", /no such directory/],
    ["DirectoryOrCreate", "missing", undefined],
    ["DirectoryOrCreate", "file", /it is not a directory/],
    ["File", "file", undefined],
    ["File", "directory", /it is not a file/],
    ["FileOrCreate", "missing", undefined],
    ["FileOrCreate", "directory", /it is not a file/],
    ["Socket", "socket", undefined],
    ["Socket", "file", /it is not a socket/],
    ["CharDevice", "file", /it is not a character device/],
    ["BlockDevice", "missing", /no such block device/],
    ["", "missing", undefined],
  ] as const;
  for (const [type, there, expected] of cases)
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

  test("accepts a device", () =>
    nodeFiles.prepareVolume({ kind: "hostPath", path: "/dev/null", type: "CharDevice" }));
});

/** Mounts `subPath` of `volume` at a place below `directory`, and unmounts it in the end. */
async function withSubPath(
  directory: string,
  subPath: string,
  work: (target: string, volume: string) => Promise<void>,
): Promise<void> {
  const target = join(directory, "pod", "sub-paths", "0");
  const volume = join(directory, "v");
  try {
    await nodeFiles.mountSubPath(volume, subPath, target);
    await work(target, volume);
  } finally {
    await nodeFiles.removeTree(join(directory, "pod"));
  }
}

describe("mountSubPath()", { skip: withoutMounts() }, () => {
  const volumeIn = async (directory: string): Promise<string> => {
    const path = join(directory, "v");
    await nodeFiles.prepareVolume(emptyDir(path));
    return path;
  };

  test("makes missing directories with the volume's mode", () =>
    inDirectory(async (directory) => {
      const volume = await volumeIn(directory);
      await withSubPath(directory, "a//./b", async (target) => {
        assert.equal(await modeOf(join(volume, "a", "b")), 0o777);
        await writeFile(join(volume, "a", "b", "file"), "x");
        assert.equal(await readFile(join(target, "file"), "utf8"), "x");
      });
      assert.equal(await readFile(join(volume, "a", "b", "file"), "utf8"), "x");
    }));

  test("mounts a file, and follows a link inside the volume", () =>
    inDirectory(async (directory) => {
      const volume = await volumeIn(directory);
      await mkdir(join(volume, "real"));
      await writeFile(join(volume, "real", "file"), "x");
      await symlink("real", join(volume, "link"));
      await withSubPath(directory, "link/file", async (target) => {
        assert.equal(await readFile(target, "utf8"), "x");
      });
    }));

  test("keeps what is mounted when it is the same, and replaces it when it is not", () =>
    inDirectory(async (directory) => {
      const volume = await volumeIn(directory);
      await withSubPath(directory, "a", async (target) => {
        await nodeFiles.mountSubPath(volume, "a", target);
        assert.equal((await mountPointsBelow(target)).length, 1);
        await rename(join(volume, "a"), join(volume, "old"));
        await writeFile(join(volume, "a"), "now a file");
        await nodeFiles.mountSubPath(volume, "a", target);
        assert.equal(await readFile(target, "utf8"), "now a file");
        assert.equal((await mountPointsBelow(target)).length, 1);
      });
    }));

  test("of several pods at once makes a missing directory once", () =>
    inDirectory(async (directory) => {
      const volume = await volumeIn(directory);
      const targets = Array.from({ length: 8 }, (_, pod) => join(directory, "pod", `sub-path-${pod}`));
      try {
        await Promise.all(targets.map((target) => nodeFiles.mountSubPath(volume, "a/b", target)));
        assert.equal(await modeOf(join(volume, "a", "b")), 0o777);
      } finally {
        await nodeFiles.removeTree(join(directory, "pod"));
      }
    }));

  for (const [what, target] of [
    ["an absolute link", "/etc"],
    ["a relative link", "../secret"],
    ["a link to a directory whose name begins alike", "../v2"],
  ] as const)
    test(`refuses ${what} that leads out of the volume`, () =>
      inDirectory(async (directory) => {
        for (const name of ["v", "v2", "secret"]) await mkdir(join(directory, name));
        await symlink(target, join(directory, "v", "link"));
        const result = withSubPath(directory, "link/x", () => Promise.resolve());
        await assert.rejects(result, /a link leads out of the volume/);
        assert.equal(existsSync(join(directory, "secret", "x")), false);
      }));

  test("never mounts what is outside while a container exchanges the path for a link", () =>
    inDirectory(async (directory) => {
      const volume = await volumeIn(directory);
      await mkdir(join(directory, "secret"));
      await writeFile(join(directory, "secret", "key"), "k");
      await mkdir(join(volume, "a"));
      await symlink("../secret", join(volume, "link"));
      let isOver = false;
      const attacker = (async () => {
        const exchange = async (from: string, to: string): Promise<void> => {
          // Fails when mountSubPath() has made "a" while it was away.
          await rename(join(volume, from), join(volume, to)).catch(() => undefined);
        };
        while (!isOver) {
          await exchange("a", "b");
          await exchange("link", "a");
          await exchange("a", "link");
          await exchange("b", "a");
        }
      })();
      for (let count = 0; count < 100; count += 1) {
        try {
          await withSubPath(directory, "a", (target) => {
            assert.equal(existsSync(join(target, "key")), false);
            return Promise.resolve();
          });
        } catch (error) {
          assert.match(String(error), /mount/); // The place may be gone, too, when it is mounted.
        }
      }
      isOver = true;
      await attacker;
    }));
});

describe("prepareVolume() in memory", { skip: withoutMounts() }, () => {
  test("mounts a file system of that size once, which removeTree() unmounts", () =>
    inDirectory(async (directory) => {
      const path = join(directory, "pod", "v");
      const volume = emptyDir(path, { group: 7, memoryBytes: 1024n ** 2n });
      await nodeFiles.prepareVolume(volume);
      await writeFile(join(path, "data"), "x");
      await nodeFiles.prepareVolume(volume);
      assert.equal(await readFile(join(path, "data"), "utf8"), "x");
      const { blocks, bsize } = await statfs(path);
      assert.equal(blocks * bsize, 1024 ** 2);
      assert.equal(await modeOf(path), 0o2777);
      await nodeFiles.removeTree(join(directory, "pod"));
      assert.equal(existsSync(join(directory, "pod")), false);
    }));

  test("removeTree() of the place where it is mounted unmounts it, too", () =>
    inDirectory(async (directory) => {
      const path = join(directory, "v");
      await nodeFiles.prepareVolume(emptyDir(path, { memoryBytes: 1024n ** 2n }));
      await nodeFiles.removeTree(path);
      assert.equal(existsSync(path), false);
      assert.deepEqual(await mountPointsBelow(path), []);
    }));
});

describe("prepareVolume() of a claim", () => {
  const group = 12_345;
  const claim = (path: string, changes: { readonly group?: number; readonly trustRoot?: boolean } = {}) =>
    ({ kind: "claim", path, group: undefined, trustRoot: false, claim: "default/data", ...changes }) as const;
  const skip = process.getuid?.() === 0 ? false : "only root may give files away";

  test("of several pods at once makes it once, writable for all users", () =>
    inDirectory(async (directory) => {
      const path = join(directory, "claims", "shared");
      await Promise.all(Array.from({ length: 8 }, () => nodeFiles.prepareVolume(claim(path))));
      assert.equal(await modeOf(path), 0o777);
    }));

  test("keeps data, and gives all of it to the fsGroup without following links", { skip }, () =>
    inDirectory(async (directory) => {
      const path = join(directory, "claim");
      await nodeFiles.prepareVolume(claim(path));
      await writeFile(join(directory, "outside"), "", { mode: 0o600 });
      await mkdir(join(path, "a"), { mode: 0o700 });
      await writeFile(join(path, "a", "data"), "x", { mode: 0o600 });
      await symlink("../../outside", join(path, "a", "link"));
      await nodeFiles.prepareVolume(claim(path, { group, trustRoot: true }));
      assert.equal((await stat(join(path, "a", "data"))).gid, group);
      const modes = await Promise.all([path, join(path, "a"), join(path, "a", "data")].map(modeOf));
      assert.deepEqual(modes, [0o2777, 0o2770, 0o660]);
      const { gid, mode } = await stat(join(directory, "outside"));
      assert.deepEqual([gid, mode & 0o7777], [0, 0o600]);
      // Its root belongs to the group now, and is trusted.
      await chown(join(path, "a", "data"), 0, 0);
      await nodeFiles.prepareVolume(claim(path, { group, trustRoot: true }));
      assert.equal((await stat(join(path, "a", "data"))).gid, 0);
    }),
  );
});

test("removeTree() removes what is there, and follows no links", () =>
  inDirectory(async (directory) => {
    const [kept, pod, empty, link] = ["kept", "pod", "empty", "link"].map((name) => join(directory, name));
    for (const path of [kept, pod, empty]) await mkdir(path!);
    await writeFile(join(kept!, "file"), "");
    for (const path of [join(pod!, "link"), link!]) await symlink(kept!, path);
    for (const path of [pod, link, empty, join(directory, "missing")]) await nodeFiles.removeTree(path!);
    assert.deepEqual(await nodeFiles.list(directory), ["kept"]);
    await nodeFiles.removeTree(join(kept!, "file"));
    assert.deepEqual(await nodeFiles.list(kept!), []);
  }));

test("replaceFile() leaves a private file, and readFile() refuses one that is too large", () =>
  inDirectory(async (directory) => {
    const path = join(directory, "uid", "pod.json");
    assert.equal(await nodeFiles.readFile(path, 10), undefined);
    await nodeFiles.replaceFile(path, "{}");
    assert.equal(await modeOf(path), 0o600);
    assert.equal(await nodeFiles.readFile(path, 10), "{}");
    await assert.rejects(nodeFiles.readFile(path, 1), { kind: "exhausted" });
    assert.deepEqual(await nodeFiles.list(join(directory, "uid")), ["pod.json"]);
    assert.deepEqual(await nodeFiles.list(join(directory, "missing")), []);
  }));

test("diskUsage() counts what files take", () =>
  inDirectory(async (directory) => {
    await writeFile(join(directory, "data"), Buffer.alloc(100_000, 1));
    assert.ok((await nodeFiles.diskUsage(directory)) >= 100_000n);
  }));

test("readTail() reads the end of a file, nothing of a directory, and waits for no pipe", () =>
  inDirectory(async (directory) => {
    const log = join(directory, "log");
    await writeFile(log, "abcdef");
    await promisify(execFile)("mkfifo", [join(directory, "pipe")]);
    const found = [await nodeFiles.readTail(log, 3), await nodeFiles.readTail(log, 100)];
    assert.deepEqual(found, ["def", "abcdef"]);
    for (const path of [join(directory, "missing"), directory, join(directory, "pipe")])
      assert.equal(await nodeFiles.readTail(path, 3), "");
  }));

test("readBelow() reads a text, also behind a link in the volume, and nothing outside of it", () =>
  inDirectory(async (directory) => {
    const volume = join(directory, "volume");
    await mkdir(volume);
    await writeFile(join(directory, "secret"), "s");
    await writeFile(join(volume, "env"), "K='v'");
    await writeFile(join(volume, "binary"), Buffer.of(0xff));
    await symlink("env", join(volume, "inner"));
    await symlink("../secret", join(volume, "outer"));
    await symlink("/etc/passwd", join(volume, "absolute"));
    await promisify(execFile)("mkfifo", [join(volume, "pipe")]);
    assert.equal(await nodeFiles.readBelow(volume, "inner", 5), "K='v'");
    const refused = [
      ["outer", /leads out of the volume/],
      ["absolute", /leads out of the volume/],
      ["none", /there is no such file/],
      [".", /it is not a file/],
      ["pipe", /it is not a file/],
      ["binary", /it is not text/],
    ] as const;
    for (const [path, message] of refused)
      await assert.rejects(nodeFiles.readBelow(volume, path, 9), message);
    await assert.rejects(nodeFiles.readBelow(volume, "env", 4), { kind: "exhausted" });
    await assert.rejects(stat(join(volume, "none")));
  }));

test("writeFile() and rewriteFile() keep the inode and cut a longer text; rewriteFile() makes no file", () =>
  inDirectory(async (directory) => {
    const path = join(directory, "a", "etc-hosts");
    assert.equal(await nodeFiles.rewriteFile(path, "x"), false);
    assert.equal(existsSync(join(directory, "a")), false);
    await nodeFiles.writeFile(path, "the longest text", 0o644);
    const { ino } = await stat(path);
    await nodeFiles.writeFile(path, "a long text", 0o666);
    assert.deepEqual([await readFile(path, "utf8"), await modeOf(path)], ["a long text", 0o666]);
    assert.equal(await nodeFiles.rewriteFile(path, "short"), true);
    assert.deepEqual([await readFile(path, "utf8"), await modeOf(path)], ["short", 0o666]);
    assert.equal((await stat(path)).ino, ino);
  }));

test("rewriteFile() rejects when the disk has no room for all of the text", { skip: withoutMounts() }, () =>
  inDirectory(async (directory) => {
    const disk = join(directory, "disk");
    await mkdir(disk);
    await mountMemory(disk, "size=65536");
    try {
      const path = join(disk, "etc-hosts");
      await nodeFiles.writeFile(path, "old", 0o644);
      // Linux writes what there is room for, and says how much that was.
      await assert.rejects(nodeFiles.rewriteFile(path, "x".repeat(128 * 1024)), { code: "ENOSPC" });
    } finally {
      await unmount(disk);
    }
  }),
);

test("memory, sub paths and sizes need no program of the host", { skip: withoutMounts() }, () =>
  inDirectory(async (directory) => {
    const memory = join(directory, "m");
    const path = process.env["PATH"];
    process.env["PATH"] = directory;
    try {
      await nodeFiles.prepareVolume(emptyDir(memory, { memoryBytes: 1024n * 1024n }));
      assert.equal((await statfs(memory)).blocks * (await statfs(memory)).bsize, 1024 * 1024);
      await writeFile(join(memory, "file"), "x".repeat(8192));
      assert.equal(await nodeFiles.diskUsage(memory), 8192n);
      await nodeFiles.prepareVolume(emptyDir(join(directory, "v")));
      await withSubPath(directory, "a", async (target) => {
        assert.deepEqual(await mountPointsBelow(target), [target]);
      });
      await assert.rejects(unmount(directory), { code: "EINVAL", message: /^EINVAL: .*unmount '/ });
    } finally {
      process.env["PATH"] = path;
      await nodeFiles.removeTree(memory);
    }
    assert.deepEqual(await mountPointsBelow(directory), []);
  }),
);
