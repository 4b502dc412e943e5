import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join, resolve } from "node:path";
import { describe, test } from "node:test";
import { openLogFile } from "../../../../src/shim/logs/sink/open-log-file.js";
import { idOf } from "../../../fakes/snapshots.js";
import { temporaryDirectory } from "../../lib/temporary-directory.js";

describe("openLogFile()", () => {
  test("makes the file and its directories, for owner and group, with any umask", async () => {
    await using root = await temporaryDirectory();
    const path = join(root.path, "pod", "main", "0.log");
    const before = process.umask(0o077);
    try {
      await (await openLogFile({ directory: join(root.path, "pod"), path }, { create: true }))?.file.close();
    } finally {
      process.umask(before);
    }
    assert.equal(lstatSync(path).mode & 0o7777, 0o640);
  });

  const refused: readonly (readonly [string, (root: string, path: string) => void, RegExp])[] = [
    [
      "a directory that is a link to elsewhere",
      (root) => {
        mkdirSync(join(root, "elsewhere"));
        symlinkSync(join(root, "elsewhere"), join(root, "pod", "main"));
      },
      /leads out of/,
    ],
    ["a directory at the log path", (_root, path) => mkdirSync(path, { recursive: true }), /is in the way/],
    [
      "a FIFO at the log path",
      (_root, path) => {
        mkdirSync(dirname(path));
        execFileSync("mkfifo", [path]);
      },
      /is in the way/,
    ],
  ];
  for (const [name, prepare, message] of refused) {
    test(`refuses ${name}, and writes nothing`, async () => {
      await using root = await temporaryDirectory();
      const directory = join(root.path, "pod");
      const path = join(directory, "main", "0.log");
      mkdirSync(directory);
      prepare(root.path, path);
      await assert.rejects(openLogFile({ directory, path }, { create: true }), { message });
      const elsewhere = join(root.path, "elsewhere");
      if (existsSync(elsewhere)) {
        const status = lstatSync(elsewhere);
        if (status.isFile()) assert.equal(readFileSync(elsewhere, "utf8"), "");
        else assert.equal(existsSync(join(elsewhere, "0.log")), false);
      }
    });
  }

  const outward: readonly (readonly [string, (root: string) => string])[] = [
    ["a directory elsewhere", (root) => (mkdirSync(join(root, "elsewhere")), "../elsewhere")],
    ["a directory that begins with the same name", (root) => (mkdirSync(join(root, "pod2")), "../pod2")],
    ["nothing", () => "../elsewhere"],
  ];
  for (const [name, prepare] of outward) {
    test(`makes no directories behind a link in the middle of the path that leads to ${name}`, async () => {
      await using root = await temporaryDirectory();
      const directory = join(root.path, "pod");
      mkdirSync(directory);
      symlinkSync(prepare(root.path), join(directory, "link"));
      const path = join(directory, "link", "new", "main", "0.log");
      const before = readdirSync(root.path, { recursive: true });
      await assert.rejects(openLogFile({ directory, path }, { create: true }), {
        message: /leads out of|is in the way/,
      });
      assert.deepEqual(readdirSync(root.path, { recursive: true }), before);
    });
  }

  test("follows a link inside of the log directory, and makes missing directories behind it", async () => {
    await using root = await temporaryDirectory();
    const directory = join(root.path, "pod");
    mkdirSync(join(directory, "volume"), { recursive: true });
    symlinkSync("volume", join(directory, "link"));
    const path = join(directory, "link", "new", "main", "0.log");
    await (await openLogFile({ directory, path }, { create: true }))?.file.close();
    assert.ok(lstatSync(join(directory, "volume", "new", "main", "0.log")).isFile());
  });

  test("opens several logs of a missing directory at once", async () => {
    await using root = await temporaryDirectory();
    const directory = join(root.path, "pod");
    const paths = Array.from({ length: 20 }, (_, index) => join(directory, "a", "b", `${String(index)}.log`));
    const files = await Promise.all(paths.map((path) => openLogFile({ directory, path }, { create: true })));
    for (const opened of files) await opened?.file.close();
    assert.equal(readdirSync(join(directory, "a", "b")).length, paths.length);
  });

  const links: readonly (readonly [string, (root: string) => string])[] = [
    ["an engine's log file", (root) => join(root, "containers", idOf("ab"), "x-json.log")],
    ["a file elsewhere", (root) => join(root, "elsewhere")],
    ["a file beside it", () => "1.log"],
    ["nothing", () => "/var/lib/docker/containers/gone/gone-json.log"],
    ["itself", () => "0.log"],
  ];
  for (const [name, targetIn] of links) {
    test(`replaces a link to ${name}, and writes nothing through it`, async () => {
      await using root = await temporaryDirectory();
      const directory = join(root.path, "pod");
      const path = join(directory, "0.log");
      mkdirSync(directory);
      const target = resolve(directory, targetIn(root.path));
      const isFile = target.startsWith(root.path) && target !== path;
      if (isFile) {
        mkdirSync(dirname(target), { recursive: true });
        writeFileSync(target, "theirs");
      }
      symlinkSync(targetIn(root.path), path);
      assert.equal(await openLogFile({ directory, path }, { create: false }), undefined);
      assert.ok(lstatSync(path).isSymbolicLink());
      const opened = await openLogFile({ directory, path }, { create: true });
      await opened?.file.write("ours");
      await opened?.file.close();
      assert.ok(lstatSync(path).isFile());
      assert.equal(readFileSync(path, "utf8"), "ours");
      assert.equal(existsSync(target), isFile || target === path);
      if (isFile) assert.equal(readFileSync(target, "utf8"), "theirs");
    });
  }
});
