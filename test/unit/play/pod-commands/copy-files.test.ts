import assert from "node:assert/strict";
import { lstat, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { after, before, test } from "node:test";
import { pack } from "tar-stream";
import {
  belowName,
  packCommand,
  packInto,
  parseFileSpec,
  unpackFrom,
  uploadTarget,
} from "../../../../src/play/pod-commands/copy-files.js";

let root = "";
before(async () => {
  root = await mkdtemp(join(tmpdir(), "dockershim-copy-"));
});
after(() => rm(root, { recursive: true }));

type Entry = Parameters<ReturnType<typeof pack>["entry"]>[0];

function archive(entries: readonly (Entry & { readonly content?: string })[]): Readable {
  const made = pack();
  for (const { content = "", ...header } of entries) made.entry(header, content);
  made.finalize();
  return Readable.from(made as AsyncIterable<Buffer>);
}

const unexpected = (line: string): void => assert.fail(line);

test("unpackFrom() writes a file under its new name, or into a directory, without set-user-id", async () => {
  const file = archive([{ name: "a.txt", content: "hello", mode: 0o4755 }]);
  assert.equal(await unpackFrom(file, "/tmp/a.txt", join(root, "b.txt"), unexpected), 1);
  assert.equal(await readFile(join(root, "b.txt"), "utf8"), "hello");
  assert.equal((await lstat(join(root, "b.txt"))).mode & 0o7000, 0);
  const into = join(root, "into");
  await mkdir(into);
  await unpackFrom(archive([{ name: "a.txt", content: "hello" }]), "tmp/a.txt", into, unexpected);
  assert.deepEqual(await readdir(into), ["a.txt"]);
});

test("unpackFrom() writes nothing outside of its target, and no links", async () => {
  const reports: string[] = [];
  const target = join(root, "hostile");
  const written = await unpackFrom(
    archive([
      { name: "data", type: "directory" },
      { name: "data/fine", content: "1" },
      { name: "data/../../evil", content: "2" },
      { name: "/etc/evil", content: "3" },
      { name: "other/evil", content: "4" },
      { name: "data/link", type: "symlink", linkname: root },
      { name: "data/hard", type: "link", linkname: "/etc/passwd" },
      { name: "data/link/evil\u001b", content: "5" },
    ]),
    "/var/data",
    target,
    (line) => reports.push(line),
  );
  assert.equal(written, 2);
  assert.equal(reports.length, 5);
  assert.deepEqual((await readdir(target)).sort(), ["fine", "link"]);
  // A directory of its own, not the link of the archive.
  assert.ok((await lstat(join(target, "link"))).isDirectory());
  assert.equal((await readdir(root)).includes("evil"), false);
});

test("unpackFrom() writes through no link that is in its target", async () => {
  const target = join(root, "linked");
  await mkdir(target);
  await symlink(root, join(target, "dir"));
  await symlink(join(root, "stolen"), join(target, "file"));
  const copy = (name: string): Promise<number> =>
    unpackFrom(archive([{ name, content: "x" }]), "/data", target, unexpected);
  await assert.rejects(copy("data/dir/x"), /no directory/);
  await assert.rejects(copy("data/file"), /ELOOP/);
  assert.equal((await readdir(root)).includes("stolen"), false);
});

test("unpackFrom() rejects for an archive that breaks off", async () => {
  const whole = await archive([{ name: "a", content: "x".repeat(2000) }]).toArray();
  const part = Readable.from([Buffer.concat(whole as Buffer[]).subarray(0, 1000)]);
  await assert.rejects(unpackFrom(part, "/a", join(root, "part"), unexpected));
});

test("packInto() and unpackFrom() copy a tree", async () => {
  const source = join(root, "tree");
  await mkdir(join(source, "empty"), { recursive: true });
  await writeFile(join(source, "zero"), "");
  await writeFile(join(source, "big"), Buffer.alloc(300_000, "b"));
  const target = join(root, "copy");
  assert.equal(await unpackFrom(packInto(source, "tree", unexpected), "/tree", target, unexpected), 2);
  assert.deepEqual((await readdir(target)).sort(), ["big", "empty", "zero"]);
  assert.equal((await readFile(join(target, "big"))).length, 300_000);
  await assert.rejects(packInto(join(root, "none"), "none", unexpected).toArray(), /ENOENT/);
});

test("belowName() accepts names below the path alone", () => {
  assert.deepEqual(belowName("./data/a/b", "data"), ["a", "b"]);
  assert.deepEqual(belowName("data/", "data"), []);
  assert.deepEqual(belowName("etc/passwd", ""), ["etc", "passwd"]);
  for (const name of ["../data", "data/../x", "/data/x", "database/x", "data/a\0b"])
    assert.equal(belowName(name, "data"), undefined, name);
});

test("commands and targets of copies", () => {
  // Relative paths are those of the container's working directory, in which tar runs.
  for (const [path, directory, name] of [
    ["-rf/../x", ".", "x"],
    ["rel.txt", ".", "rel.txt"],
    ["../a/b/", "../a", "b"],
    [".", ".", "."],
    ["../..", "../..", "."],
    ["/", "/", "."],
    ["/../var/log", "/var", "log"],
  ] as const)
    assert.deepEqual(packCommand(path), ["tar", "-cf", "-", "-C", directory, "--", name]);
  const targets = [
    uploadTarget("a/b", "rel", { isDirectory: false }),
    uploadTarget("a/b", "rel", { isDirectory: true }),
    uploadTarget("a/b", "..", { isDirectory: true }),
    uploadTarget("a/b", "/tmp", { isDirectory: true }),
    uploadTarget("a/b", "/tmp/c", { isDirectory: false }),
  ];
  assert.deepEqual(targets, [
    { directory: ".", name: "rel" },
    { directory: "rel", name: "b" },
    { directory: "..", name: "b" },
    { directory: "/tmp", name: "b" },
    { directory: "/tmp", name: "c" },
  ]);
  assert.deepEqual(parseFileSpec("shop/web:/a:b"), { pod: "shop/web", path: "/a:b" });
  assert.deepEqual(parseFileSpec("./a:b"), { pod: undefined, path: "./a:b" });
  assert.throws(() => parseFileSpec("web:"), /POD:PATH/);
});
