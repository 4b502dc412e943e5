import assert from "node:assert/strict";
import { lstat, mkdir, readdir, readFile, readlink, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { deadLogLinks, linkLog, restoreLogLink, unlinkLog } from "../../../src/shim/host/log-link.js";
import { idOf } from "../../fakes/snapshots.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

const id = idOf("3f");
const target = `/var/lib/docker/containers/${id}/${id}-json.log`;
const older = target.replaceAll("3f", "4f");

describe("linkLog()", () => {
  test("makes the link and its missing directories, and nothing else", async () => {
    await using at = await temporaryDirectory();
    const link = join(at.path, "pod", "main", "0.log");
    await linkLog(link, target);
    assert.equal(await readlink(link), target);
    assert.deepEqual(await readdir(join(at.path, "pod", "main")), ["0.log"]);
  });

  test("moves files aside as rotated logs, two in one second apart", async (context) => {
    context.mock.timers.enable({ apis: ["Date"], now: Date.UTC(2024, 1, 3, 4, 5, 6) });
    await using at = await temporaryDirectory();
    const link = join(at.path, "0.log");
    for (const text of ["first", "second"]) {
      await unlinkLog(link, id);
      await writeFile(link, text);
      await linkLog(link, target);
    }
    assert.equal(await readFile(`${link}.20240203-040506`, "utf8"), "first");
    assert.equal(await readFile(`${link}.20240203-040506-1`, "utf8"), "second");
    assert.equal(await readlink(link), target);
  });

  for (const leadsTo of [older, "/etc/passwd", "/var/lib/docker/containers/gone/gone-json.log"]) {
    test(`replaces a link to ${leadsTo}`, async () => {
      await using at = await temporaryDirectory();
      const link = join(at.path, "0.log");
      await symlink(leadsTo, link);
      await unlinkLog(link, id);
      assert.equal(await readlink(link), leadsTo);
      await linkLog(link, target);
      assert.equal(await readlink(link), target);
      assert.deepEqual(await readdir(at.path), ["0.log"]);
    });
  }

  test("fails with precondition when a directory is in the way, and leaves it there", async () => {
    await using at = await temporaryDirectory();
    const link = join(at.path, "0.log");
    await mkdir(link);
    await assert.rejects(linkLog(link, target), { kind: "precondition" });
    await unlinkLog(link, id);
    assert.ok((await lstat(link)).isDirectory());
  });
});

describe("unlinkLog()", () => {
  test("succeeds without a link, and keeps a file", async () => {
    await using at = await temporaryDirectory();
    const link = join(at.path, "0.log");
    await unlinkLog(link, id);
    await unlinkLog(join(at.path, "missing", "0.log"), id);
    await writeFile(link, "text");
    await unlinkLog(link, id);
    await unlinkLog(join(link, "0.log"), id);
    assert.equal(await readFile(link, "utf8"), "text");
  });

  test("keeps the link of the next container", async () => {
    await using at = await temporaryDirectory();
    const link = join(at.path, "0.log");
    await symlink(older, link);
    await unlinkLog(link, id);
    assert.equal(await readlink(link), older);
  });
});

describe("deadLogLinks()", () => {
  test("finds links to files that engines do not have any more, and no others", async () => {
    await using at = await temporaryDirectory();
    const [dead, flat] = [join(at.path, "main", "0.log"), join(at.path, "flat.log")];
    await linkLog(dead, target);
    await linkLog(flat, older);
    const alive = join(at.path, "docker", "containers", id);
    await mkdir(alive, { recursive: true });
    await writeFile(join(alive, "x-json.log"), "");
    await linkLog(join(at.path, "main", "1.log"), join(alive, "x-json.log"));
    await symlink("/nowhere", join(at.path, "main", "2.log"));
    await writeFile(join(at.path, "main", "3.log"), "text");
    const found = [...(await deadLogLinks(at.path))].sort((a, b) => a.path.localeCompare(b.path));
    assert.deepEqual(found, [
      { path: flat, containerId: idOf("4f") },
      { path: dead, containerId: id },
    ]);
  });
});

describe("restoreLogLink()", () => {
  const leaveAlone: readonly (readonly [string, readonly string[]])[] = [
    ["a log that is a file", ["0.log"]],
    ["a log that a kubelet has renamed, before it is reopened", ["0.log.20261121-101112"]],
  ];
  for (const [name, files] of leaveAlone)
    test(`leaves ${name}`, async () => {
      await using at = await temporaryDirectory();
      for (const file of files) await writeFile(join(at.path, file), "");
      assert.equal(await restoreLogLink(join(at.path, "0.log"), target), false);
      assert.deepEqual(await readdir(at.path), files);
    });

  test("makes missing directories and the link, and replaces the link to another container's log", async () => {
    await using at = await temporaryDirectory();
    const link = join(at.path, "main", "0.log");
    assert.equal(await restoreLogLink(link, older), true);
    assert.equal(await restoreLogLink(link, target), true);
    assert.equal(await readlink(link), target);
    assert.deepEqual(await readdir(join(at.path, "main")), ["0.log"]);
  });
});
