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
