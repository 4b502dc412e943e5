import assert from "node:assert/strict";
import { chmod, chown, mkdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { remappedFileCalls } from "../../../../src/play/node/file-calls.js";
import { temporaryDirectory } from "../../lib/temporary-directory.js";

const skip = process.getuid?.() === 0 ? false : "only root may give files away";

test(
  "with userns-remap the missing directories of a sub path belong to root of the containers",
  { skip },
  async () => {
    await using volume = await temporaryDirectory();
    const { path } = volume;
    const calls = remappedFileCalls({ uid: 100_000, gid: 200_000 });
    const ownersOf = async (name: string): Promise<string> => {
      const { uid, gid, mode } = await stat(join(path, name));
      return `${uid}:${gid} ${(mode & 0o7777).toString(8)}`;
    };
    await chmod(path, 0o755);
    await mkdir(join(path, "there"));
    await calls.findSubPath(path, "there/a/b");
    assert.deepEqual(await Promise.all(["there", "there/a", "there/a/b"].map(ownersOf)), [
      ...["0:0 755", "100000:200000 755", "100000:200000 755"],
    ]);
    await chown(path, 0, 203_000);
    await chmod(path, 0o2770);
    await calls.findSubPath(path, "c");
    assert.equal(await ownersOf("c"), "100000:203000 2770", "the volume's group");
  },
);

test(
  "with userns-remap files belong to root of the containers, and groups are theirs",
  { skip },
  async () => {
    await using directory = await temporaryDirectory();
    const calls = remappedFileCalls({ uid: 100_000, gid: 200_000 });
    const ownersOf = async (path: string): Promise<string> => {
      const { uid, gid } = await stat(path);
      return `${uid}:${gid}`;
    };
    const made = join(directory.path, "made");
    const file = join(made, "file");
    await calls.makeDirectory(made, 0o755);
    await calls.createFile(file, Buffer.from("x"), 0o400);
    assert.deepEqual([await ownersOf(made), await ownersOf(file)], ["100000:200000", "100000:200000"]);
    await calls.changeGroup(file, 3000);
    assert.equal(await ownersOf(file), "100000:203000");
    await calls.giveToGroup(made, 4000, { trustRoot: false });
    assert.deepEqual([await ownersOf(made), await ownersOf(file)], ["100000:204000", "100000:204000"]);
    await calls.makeDirectory(directory.path, 0o755);
    assert.equal(await ownersOf(directory.path), "0:0", "what was there before stays as it is");
  },
);
