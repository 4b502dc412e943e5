import assert from "node:assert/strict";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { readReservations } from "../../../../src/network/kubenet/address-store.js";
import { temporaryDirectory } from "../../base/temporary-directory.js";

describe("readReservations()", () => {
  test("reads the files of addresses, and nothing else", async () => {
    await using at = await temporaryDirectory();
    const write = (name: string, content: string): Promise<void> => writeFile(join(at.path, name), content);
    await write("10.1.0.2", "abc\r\neth0");
    await write("fd00::2", "def\r\nnet1");
    await write("10.1.0.3", "old");
    await write("10.1.0.4", "");
    await write("last_reserved_ip.0", "10.1.0.2");
    await write("lock", "");
    await mkdir(join(at.path, "10.1.0.5"));
    await symlink("10.1.0.2", join(at.path, "10.1.0.6"));
    const found = await readReservations(at.path);
    assert.deepEqual(
      [...found].sort((left, right) => left.address.localeCompare(right.address)),
      [
        { address: "10.1.0.2", containerId: "abc", ifName: "eth0" },
        { address: "10.1.0.3", containerId: "old", ifName: "eth0" },
        { address: "fd00::2", containerId: "def", ifName: "net1" },
      ],
    );
  });

  test("finds nothing where there is no directory", async () => {
    assert.deepEqual(await readReservations("/nonexistent/kubenet"), []);
  });
});
