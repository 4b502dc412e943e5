/** The program that writes files on an engine's host, run here in a directory of the test. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmod,
  chown,
  link,
  lstat,
  mkdir,
  mkdtemp,
  readFile,
  readdir,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { type FileCalls, remappedFileCalls } from "../../../src/play/node/file-calls.js";
import { HelperCalls } from "../../../src/play/remote-engine/helper-calls.js";
import { encodeRequest } from "../../../src/play/remote-engine/helper-protocol.js";
import type { Owner } from "../../../src/domain/node-facts.js";
import type { ProcessStreams } from "../../../src/shim/ports/engine.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";
import { withoutMounts } from "../play/node/can-mount.js";
import { imageArchitecture } from "../../../src/shim/native/programs.js";

const architecture = imageArchitecture(process.arch);
const program = fileURLToPath(new URL(`../../../native/bin/helper-${architecture ?? ""}`, import.meta.url));
const skip =
  process.platform !== "linux" || architecture === undefined
    ? "there is no program for this machine"
    : process.getuid?.() === 0
      ? false
      : "not root";

interface Bed {
  readonly directory: string;
  readonly calls: HelperCalls;
  readonly child: ChildProcess;
}

/** The volumes of the test are in a directory, which the program knows as all there is. */
async function withProgram(
  work: (bed: Bed) => Promise<void>,
  { before = [], root }: { readonly before?: readonly string[]; readonly root?: Owner } = {},
): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), "play-files-"));
  await mkdir(join(directory, "dockershim-play"));
  const [first, ...words] = [...before, program, "play-files", directory, "dockershim-play"];
  const child = spawn(first, words, { stdio: ["pipe", "pipe", "inherit"] });
  const streams: ProcessStreams = {
    input: child.stdin,
    readOutput: async (take) => {
      for await (const chunk of child.stdout) await take("stdout", chunk as Buffer, true);
    },
    close: () => child.stdin.end(),
  };
  const calls = new HelperCalls(streams, directory, directory, root);
  try {
    await work({ directory: join(directory, "dockershim-play"), calls, child });
  } finally {
    calls[Symbol.dispose]();
    if (child.exitCode === null) await once(child, "exit");
    await rm(directory, { recursive: true, force: true });
  }
}

describe("play-files", { skip }, () => {
  const remapped = { uid: 100_000, gid: 200_000 };

  /** Those of this host, and those of the program. */
  const implementations = {
    "this host": async (work: (directory: string, calls: FileCalls) => Promise<void>) => {
      await using directory = await temporaryDirectory();
      await work(directory.path, remappedFileCalls(remapped));
    },
    "the program": (work: (directory: string, calls: FileCalls) => Promise<void>) =>
      withProgram(({ directory, calls }) => work(directory, calls), { root: remapped }),
  };
  for (const [name, withCalls] of Object.entries(implementations)) {
    const ownerOf = async (path: string): Promise<string> => {
      const { uid, gid, mode } = await stat(path);
      return `${uid}:${gid} ${(mode & 0o7777).toString(8)}`;
    };

    test(`${name}: all is given to root as containers of an engine with userns-remap see it`, () =>
      withCalls(async (directory, calls) => {
        const [inside, file] = [join(directory, "a"), join(directory, "a/f")];
        const owners = (): Promise<readonly string[]> => Promise.all([inside, file].map(ownerOf));
        await calls.makeDirectory(inside, 0o755);
        await calls.createFile(file, Buffer.from("x"), 0o400);
        assert.deepEqual(await owners(), ["100000:200000 755", "100000:200000 400"]);
        await calls.changeGroup(inside, 3000);
        assert.deepEqual(await owners(), ["100000:203000 755", "100000:200000 400"]);
        await calls.giveToGroup(inside, 3001, { trustRoot: false });
        assert.deepEqual(await owners(), ["100000:203001 2775", "100000:203001 660"]);
      }));

    test(`${name}: missing directories of a sub path belong to that root, in a volume of a group to the group`, () =>
      withCalls(async (directory, calls) => {
        await chmod(directory, 0o755);
        await mkdir(join(directory, "there"));
        await calls.findSubPath(directory, "there/a/b");
        const made = ["there", "there/a", "there/a/b"].map((path) => ownerOf(join(directory, path)));
        assert.deepEqual(await Promise.all(made), ["0:0 755", "100000:200000 755", "100000:200000 755"]);
        await chown(directory, 0, 203_000);
        await chmod(directory, 0o2770);
        await calls.findSubPath(directory, "c");
        assert.equal(await ownerOf(join(directory, "c")), "100000:203000 2770");
      }));
  }

  test("makes directories, files and links with exact modes, and looks at them", () =>
    withProgram(async ({ directory, calls }) => {
      const inside = join(directory, "a");
      assert.equal(await calls.makeDirectory(inside, 0o1777), true);
      assert.equal(await calls.makeDirectory(inside, 0o700), false);
      assert.equal((await stat(inside)).mode & 0o7777, 0o1777);
      await calls.createFile(join(inside, "f"), Buffer.from("text"), 0o666);
      await assert.rejects(calls.createFile(join(inside, "f"), Buffer.from(""), 0o666), { code: "EEXIST" });
      await calls.makeLink("../any where", join(inside, "l"));
      assert.equal(await calls.readLink(join(inside, "l")), "../any where");
      await assert.rejects(calls.readLink(join(inside, "f")), { code: "EINVAL" });
      assert.deepEqual([...(await calls.list(inside))].sort(), ["f", "l"]);
      const { kind, mode, size } = (await calls.look(join(inside, "f"))) ?? assert.fail();
      assert.deepEqual([kind, mode, size], ["file", 0o666, 4]);
      assert.equal((await calls.look(join(inside, "l")))?.kind, "link");
      await calls.makeLink("other", join(inside, "new"));
      await calls.rename(join(inside, "new"), join(inside, "l"));
      assert.equal(await calls.readLink(join(inside, "l")), "other");
      assert.equal(await calls.look(join(inside, "missing")), undefined);
      await calls.changeMode(join(inside, "f"), 0o400);
      await calls.changeGroup(join(inside, "f"), 4321);
      const { gid, uid, mode: changed } = await stat(join(inside, "f"));
      assert.deepEqual([uid, gid, changed & 0o7777], [0, 4321, 0o400]);
    }));

  test("rewrites a file in its place, also a large one, and reads it in parts", () =>
    withProgram(async ({ directory, calls }) => {
      const path = join(directory, "f");
      assert.equal(await calls.rewriteFile(path, Buffer.from("x")), false);
      const large = Buffer.alloc(1_300_000, "0123456789");
      await calls.createFile(path, large, 0o600);
      const { ino } = await stat(path);
      assert.ok((await calls.readFile(path)).equals(large));
      assert.equal((await calls.readPart(path, 1_299_995, 100)).toString(), "56789");
      assert.equal(await calls.rewriteFile(path, Buffer.from("short")), true);
      assert.equal(await readFile(path, "utf8"), "short");
      assert.equal((await stat(path)).ino, ino);
    }));

  describe("leaves the volumes by no path:", () => {
    test("one with other parts than names, or of another directory", () =>
      withProgram(async ({ directory, child }) => {
        await writeFile(join(directory, "..", "other"), "");
        const own = ["../other", "./x", "/x", "x/"].map((path) => `dockershim-play/${path}`);
        for (const path of [...own, "other", "/etc/passwd", ""]) {
          child.stdin?.write(encodeRequest(7, "unlink", { texts: [path] }));
          const [answer] = (await once(child.stdout ?? assert.fail(), "data")) as [Buffer];
          assert.deepEqual([answer.readUInt32LE(4), answer.readUInt32LE(8)], [7, 22], path); // EINVAL
          assert.ok((await readdir(join(directory, ".."))).includes("other"));
        }
      }));

    test("a link in the place of a directory", () =>
      withProgram(async ({ directory, calls }) => {
        await mkdir(join(directory, "..", "other"));
        await symlink(join(directory, "..", "other"), join(directory, "l"));
        await assert.rejects(calls.createFile(join(directory, "l", "f"), Buffer.from(""), 0o600), {
          code: "ELOOP",
        });
        await assert.rejects(calls.changeMode(join(directory, "l"), 0o777), { code: "ELOOP" });
        await assert.rejects(calls.rewriteFile(join(directory, "l"), Buffer.from("")), { code: "ELOOP" });
        await calls.removeTree(join(directory, "l"));
        assert.deepEqual(await readdir(join(directory, "..")), ["dockershim-play", "other"]);
      }));
  });

  test("removes trees of any depth, and follows no link", () =>
    withProgram(async ({ directory, calls }) => {
      await mkdir(join(directory, "..", "kept", "x"), { recursive: true });
      let path = join(directory, "tree");
      await mkdir(path);
      await symlink("../../kept", join(path, "l"));
      // Deeper than the program opens at once, and than a path may be long.
      for (let level = 0; level < 5; level += 1) {
        const below = join(path, ...Array.from({ length: 120 }, () => "0123456789"));
        await mkdir(below, { recursive: true });
        await writeFile(join(below, "f"), "");
        await rename(path, join(directory, `moved-${level}`));
        path = join(directory, "tree");
        await mkdir(path);
        await rename(join(directory, `moved-${level}`), join(path, "d"));
      }
      await calls.removeTree(path);
      await calls.removeTree(path); // It may be missing.
      assert.deepEqual(await readdir(directory), []);
      assert.deepEqual(await readdir(join(directory, "..", "kept")), ["x"]);
    }));

  test("counts the blocks of a directory, of each file once", () =>
    withProgram(async ({ directory, calls }) => {
      const before = await calls.diskUsage(directory);
      await mkdir(join(directory, "d"));
      await writeFile(join(directory, "d", "f"), Buffer.alloc(1_000_000, 1));
      await link(join(directory, "d", "f"), join(directory, "again"));
      const used = Number((await calls.diskUsage(directory)) - before);
      assert.ok(used >= 1_000_000 && used < 1_500_000, `${used}`);
      assert.ok((await calls.space(directory)) > 1_000_000n);
    }));

  test("gives a volume to a group, links aside", () =>
    withProgram(async ({ directory, calls }) => {
      await mkdir(join(directory, "d"), { mode: 0o755 });
      await writeFile(join(directory, "d", "f"), "", { mode: 0o600 });
      await writeFile(join(directory, "..", "other"), "");
      await symlink("../../other", join(directory, "d", "l"));
      await calls.giveToGroup(directory, 4321, { trustRoot: false });
      const modeOf = async (path: string): Promise<readonly number[]> => {
        const { gid, mode } = await lstat(path);
        return [gid, mode & 0o7777];
      };
      assert.deepEqual(await modeOf(join(directory, "d")), [4321, 0o2775]);
      assert.deepEqual(await modeOf(join(directory, "d", "f")), [4321, 0o660]);
      assert.equal((await lstat(join(directory, "..", "other"))).gid, 0);
      await chmod(join(directory, "d", "f"), 0o600);
      await calls.giveToGroup(directory, 4321, { trustRoot: true });
      assert.deepEqual(await modeOf(join(directory, "d", "f")), [4321, 0o600]);
    }));

  test("finds sub paths in a volume, makes what is missing, and follows links that stay in it", () =>
    withProgram(async ({ directory, calls }) => {
      await chmod(directory, 0o2777);
      assert.equal((await calls.findSubPath(directory, "a/b/c")).kind, "directory");
      assert.equal((await stat(join(directory, "a", "b"))).mode & 0o7777, 0o2777);
      await writeFile(join(directory, "a", "f"), "");
      await symlink("a", join(directory, "within"));
      await symlink("../..", join(directory, "a", "out"));
      await symlink("/etc", join(directory, "absolute"));
      await symlink("nowhere", join(directory, "dangling"));
      assert.equal((await calls.findSubPath(directory, "within/f")).kind, "file");
      const reasons = { "a/out/x": /leads out of the volume/, absolute: /leads out/, dangling: /ELOOP/ };
      for (const [path, reason] of Object.entries(reasons))
        await assert.rejects(calls.findSubPath(directory, path), reason, path);
    }));

  test("mounts memory and sub paths, and unmounts them", { skip: withoutMounts() }, () =>
    withProgram(
      async ({ directory, calls }) => {
        const memory = join(directory, "memory");
        await calls.makeDirectory(memory, 0o755);
        assert.equal(await calls.isMountPoint(memory), false);
        await calls.mountMemory(memory, 1_048_576n);
        assert.equal(await calls.isMountPoint(memory), true);
        await calls.createFile(join(memory, "f"), Buffer.from("in memory"), 0o600);
        assert.deepEqual(await readdir(memory), []); // It is in a mount namespace of its own.
        const target = join(directory, "target of\nmine");
        await calls.createFile(target, Buffer.alloc(0), 0o600);
        await calls.bindSubPath(memory, "f", target);
        assert.equal((await calls.readFile(target)).toString(), "in memory");
        const found = await calls.findSubPath(memory, "f");
        assert.equal((await calls.look(target))?.identity, found.identity);
        await assert.rejects(calls.removeTree(memory), { code: "EBUSY" });
        assert.equal((await calls.readFile(join(memory, "f"))).toString(), "in memory");
        assert.deepEqual(await calls.mountPointsBelow(directory), [memory, target]);
        await calls.unmount(target);
        await calls.unmount(memory);
        assert.deepEqual(await calls.mountPointsBelow(directory), []);
        await assert.rejects(calls.unmount(memory), { code: "EINVAL" });
        await calls.removeTree(memory);
      },
      { before: ["unshare", "--mount", "--propagation", "private"] },
    ),
  );

  test("ends with its input", () =>
    withProgram(async ({ child, calls, directory }) => {
      await calls.list(directory);
      child.stdin?.end();
      assert.deepEqual(await once(child, "exit"), [0, null]);
      await assert.rejects(calls.list(directory), { kind: "unavailable" });
      assert.equal(calls.isLost, true);
    }));
});
