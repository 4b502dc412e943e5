import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { chmod, mkdir, readFile, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import {
  loadedAppArmorProfiles,
  readCdiSpecs,
  readNodeFile,
  rewriteInPlace,
} from "../../../src/shim/host/node-files.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";
import { pluck } from "../../support/pluck.js";

const makeFifo = (path: string): unknown => execFileSync("mkfifo", [path]);

describe("readNodeFile()", () => {
  test("reads up to the limit, through links", async () => {
    await using at = await temporaryDirectory();
    await writeFile(join(at.path, "file"), "1234");
    await symlink("file", join(at.path, "link"));
    assert.equal(await readNodeFile(join(at.path, "link"), 4), "1234");
    await assert.rejects(readNodeFile(join(at.path, "file"), 3), { kind: "invalid" });
  });

  test("holds files without a size to the limit, too", async () => {
    await assert.rejects(readNodeFile("/proc/self/status", 16), { kind: "invalid" });
    assert.match(await readNodeFile("/proc/self/status", 65_536), /^Name:/);
  });

  for (const what of ["missing", "directory", "fifo"]) {
    test(`refuses everything but files without waiting: ${what}`, async () => {
      await using at = await temporaryDirectory();
      const path = join(at.path, what);
      if (what === "directory") await mkdir(path);
      if (what === "fifo") makeFifo(path);
      await assert.rejects(readNodeFile(path, 100), { kind: "invalid" });
    });
  }
});

test("loadedAppArmorProfiles() reads names with blanks, and undefined from a kernel without AppArmor", async () => {
  await using at = await temporaryDirectory();
  const path = join(at.path, "profiles");
  assert.equal(await loadedAppArmorProfiles(path), undefined);
  await writeFile(path, "docker-default (enforce)\n/usr/bin/man (complain)\nmy profile (x) (kill)\n");
  const profiles = await loadedAppArmorProfiles(path);
  assert.deepEqual([...(profiles ?? [])], ["docker-default", "/usr/bin/man", "my profile (x)"]);
});

describe("rewriteInPlace()", () => {
  for (const content of ["nameserver 10.0.0.10\n", "", "x".repeat(100_000)]) {
    test(`keeps inode and mode and leaves exactly ${content.length} bytes`, async () => {
      await using at = await temporaryDirectory();
      const path = join(at.path, "resolv.conf");
      await writeFile(path, "nameserver 192.0.2.1\nsearch a.example b.example\n");
      await chmod(path, 0o640);
      const before = await stat(path);
      await rewriteInPlace(path, content);
      const after = await stat(path);
      assert.equal(await readFile(path, "utf8"), content);
      assert.deepEqual([after.ino, after.mode], [before.ino, before.mode]);
    });
  }

  test("makes no file and follows no link", async () => {
    await using at = await temporaryDirectory();
    const path = join(at.path, "resolv.conf");
    await assert.rejects(rewriteInPlace(path, "x"), { fields: { path, errno: "ENOENT" } });
    await writeFile(join(at.path, "other"), "other");
    await symlink("other", path);
    await assert.rejects(rewriteInPlace(path, "x"), { fields: { path, errno: "ELOOP" } });
    assert.equal(await readFile(join(at.path, "other"), "utf8"), "other");
  });

  test("does not wait for the other end of a FIFO", async () => {
    await using at = await temporaryDirectory();
    makeFifo(join(at.path, "resolv.conf"));
    const writing = rewriteInPlace(join(at.path, "resolv.conf"), "x");
    await assert.rejects(writing, { kind: "precondition" });
  });
});

describe("readCdiSpecs()", () => {
  test("reads JSON and YAML of all directories in order, the later with higher priority", async () => {
    await using at = await temporaryDirectory();
    const [first, second] = [join(at.path, "etc"), join(at.path, "run")];
    await mkdir(first);
    await mkdir(second);
    await writeFile(join(first, "b.json"), '{"kind": "a.example/b"}');
    await writeFile(join(first, "a.yaml"), "kind: a.example/a\ndevices: []\n");
    await writeFile(join(first, "notes.txt"), "kind: x");
    await writeFile(join(second, "c.yaml"), "kind: a.example/c\n");
    const log = recordingLog();
    const missing = join(at.path, "missing");
    assert.deepEqual(await readCdiSpecs([first, missing, second], log), [
      { path: join(first, "a.yaml"), priority: 0, content: { kind: "a.example/a", devices: [] } },
      { path: join(first, "b.json"), priority: 0, content: { kind: "a.example/b" } },
      { path: join(second, "c.yaml"), priority: 2, content: { kind: "a.example/c" } },
    ]);
    assert.deepEqual(log.lines, []);
  });

  test("has no content for unreadable files, and logs their paths", async () => {
    await using at = await temporaryDirectory();
    await writeFile(join(at.path, "broken.json"), '{"kind": ');
    await mkdir(join(at.path, "directory.yaml"));
    makeFifo(join(at.path, "fifo.yaml"));
    await writeFile(join(at.path, "good.yaml"), "kind: a.example/a\n");
    const log = recordingLog();
    const documents = await readCdiSpecs([at.path, join(at.path, "good.yaml")], log);
    const contents = [undefined, undefined, undefined, { kind: "a.example/a" }];
    assert.deepEqual(pluck(documents, "content"), contents);
    const names = ["broken.json", "directory.yaml", "fifo.yaml", "good.yaml"];
    const paths = log.lines.map(({ fields }) => fields["path"]);
    const expected = names.map((name) => join(at.path, name));
    assert.deepEqual(paths, expected);
  });
});
