import assert from "node:assert/strict";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { reservedAddresses } from "../../../../src/network/orphans/held-resources.js";
import { temporaryDirectory } from "../../lib/temporary-directory.js";

describe("reservedAddresses()", () => {
  test("reads the files of addresses, and nothing else", async () => {
    await using at = await temporaryDirectory();
    const directory = join(at.path, "net");
    await mkdir(directory);
    const write = (name: string, content: string): Promise<void> => writeFile(join(directory, name), content);
    await write("10.1.0.2", "abc\r\neth0");
    await write("fd00::2", "def\r\nnet1");
    await write("10.1.0.3", "old");
    await write("10.1.0.4", "");
    await write("last_reserved_ip.0", "10.1.0.2");
    await write("lock", "");
    await mkdir(join(directory, "10.1.0.5"));
    await symlink("10.1.0.2", join(directory, "10.1.0.6"));
    const found = await reservedAddresses(at.path, "net");
    assert.deepEqual(
      found
        .map(({ address, containerId, ifName }) => [address, containerId, ifName])
        .sort(([left = ""], [right = ""]) => left.localeCompare(right)),
      [
        ["10.1.0.2", "abc", "eth0"],
        ["10.1.0.3", "old", "eth0"],
        ["fd00::2", "def", "net1"],
      ],
    );
  });

  test("finds nothing where there is no directory", async () => {
    assert.deepEqual(await reservedAddresses("/nonexistent", "kubenet"), []);
  });
});
