import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { link, mkdir, readdir, readFile, stat, symlink, truncate, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { extract, type Header } from "tar-stream";
import { deletedFilesName, rootChangesName, writeRootChanges } from "../../../src/shim/host/root-changes.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

const same = { uids: "0 0 4294967295\n", gids: "0 0 4294967295\n" };

async function fixture() {
  const directory = await temporaryDirectory();
  const [upper, work] = [join(directory.path, "upper"), join(directory.path, "work")];
  for (const path of [upper, work]) await mkdir(path);
  return {
    upper,
    work,
    write: (maps = same) => writeRootChanges(upper, work, maps, new AbortController().signal),
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  };
}

async function entriesOf(work: string) {
  const tar = extract();
  const entries = new Map<string, { readonly header: Header; readonly text: string }>();
  tar.end(await readFile(join(work, rootChangesName)));
  for await (const entry of tar) {
    const chunks: Buffer[] = [];
    for await (const chunk of entry) chunks.push(chunk as Buffer);
    entries.set(entry.header.name, { header: entry.header, text: Buffer.concat(chunks).toString() });
  }
  return entries;
}

describe("writeRootChanges()", () => {
  test("holds new and changed files, with links of both kinds and their directories", async () => {
    await using layer = await fixture();
    await mkdir(join(layer.upper, "etc"));
    await writeFile(join(layer.upper, "etc", "x"), "text", { mode: 0o640 });
    await link(join(layer.upper, "etc", "x"), join(layer.upper, "etc", "y"));
    // Of another place, which must not be read.
    await symlink("/etc/passwd", join(layer.upper, "passwd"));
    assert.equal(await layer.write(), 0);
    const entries = await entriesOf(layer.work);
    assert.deepEqual([...entries.keys()].sort(), ["etc/", "etc/x", "etc/y", "passwd"]);
    const kinds = ["etc/", "passwd"].map((name) => entries.get(name)?.header.type);
    assert.deepEqual(kinds, ["directory", "symlink"]);
    assert.equal(entries.get("passwd")?.header.linkname, "/etc/passwd");
    const [x, y] = [entries.get("etc/x"), entries.get("etc/y")];
    // The directory has no order.
    const [first, second] = x?.header.type === "link" ? [y, x] : [x, y];
    assert.deepEqual([first?.text, first?.header.mode], ["text", 0o640]);
    assert.deepEqual([second?.header.type, second?.header.linkname], ["link", first?.header.name]);
    assert.deepEqual(await readdir(layer.work), [rootChangesName]);
  });

  test("writes nothing for a container that has changed nothing", async () => {
    await using layer = await fixture();
    assert.equal(await layer.write(), 0);
    assert.deepEqual(await readdir(layer.work), []);
  });

  test("names what was deleted as other runtimes do", async (t) => {
    if (process.geteuid?.() !== 0) {
      t.skip("only root makes whiteouts");
      return;
    }
    await using layer = await fixture();
    await mkdir(join(layer.upper, "etc"));
    execFileSync("mknod", [join(layer.upper, "etc", "gone"), "c", "0", "0"]);
    await layer.write();
    assert.deepEqual(JSON.parse(await readFile(join(layer.work, deletedFilesName), "utf8")), ["/etc/gone"]);
    assert.deepEqual([...(await entriesOf(layer.work)).keys()], ["etc/"]);
  });

  test("has the owners that the container sees", async () => {
    await using layer = await fixture();
    await writeFile(join(layer.upper, "x"), "");
    const { uid, gid } = await stat(join(layer.upper, "x"));
    const maps = { uids: `      7 ${uid} 10\n`, gids: `0 ${gid + 1} 10\n` };
    await layer.write(maps);
    const { header } = (await entriesOf(layer.work)).get("x") ?? {};
    assert.deepEqual([header?.uid, header?.gid], [7, gid]);
  });

  test("has ids and times that the old fields of tar have no room for", async () => {
    await using layer = await fixture();
    await writeFile(join(layer.upper, "x"), "text");
    const { uid, gid } = await stat(join(layer.upper, "x"));
    await utimes(join(layer.upper, "x"), new Date(-5000), new Date(-5000));
    await mkdir(join(layer.upper, "later"));
    await utimes(join(layer.upper, "later"), 2 ** 31, 2 ** 31);
    await layer.write({ uids: `1000650000 ${uid} 1\n`, gids: `262144 ${gid} 1\n` });
    const paxOf = ({ pax }: Header) =>
      Object.fromEntries(Object.entries(pax ?? {}).filter(([key]) => key !== "path"));
    const entries = await entriesOf(layer.work);
    const owners = { uid: "1000650000", gid: "262144" };
    const found = [...entries].map(([name, { header }]) => [name, paxOf(header)] as const);
    assert.deepEqual(Object.fromEntries(found), {
      x: { ...owners, mtime: "-5" },
      "later/": { ...owners, mtime: String(2 ** 31) },
    });
    // An octal field with a sign is damage to other programs.
    const times = execFileSync("tar", ["--full-time", "--utc", "-tvf", join(layer.work, rootChangesName)], {
      env: { ...process.env, TZ: "UTC" },
      encoding: "utf8",
    });
    assert.match(times, /1000650000\/262144 .*1969-12-31 23:59:55 x$/m);
  });

  test("has no links to places whose names are not UTF-8", async () => {
    await using layer = await fixture();
    await symlink(Buffer.from([0x2f, 0xff]), join(layer.upper, "x"));
    assert.equal(await layer.write(), 1);
    assert.deepEqual(await readdir(layer.work), []);
  });

  test("has holes of any number of small files up to a limit", async () => {
    await using layer = await fixture();
    for (let index = 0; index < 70; index++) {
      await writeFile(join(layer.upper, String(index)), "");
      await truncate(join(layer.upper, String(index)), 1024 * 1024);
    }
    assert.equal(await layer.write(), 6);
  });

  test("takes no more of the disk than the container does: holes, names and levels without end", async () => {
    await using layer = await fixture();
    await writeFile(join(layer.upper, "large"), "");
    await truncate(join(layer.upper, "large"), 2 ** 40);
    await writeFile(join(layer.upper, "small"), "x");
    await truncate(join(layer.upper, "small"), 100_000);
    await mkdir(join(layer.upper, ...Array<string>(200).fill("d")), { recursive: true });
    const name = Buffer.concat([Buffer.from(`${layer.upper}/`), Buffer.from([0xff])]);
    await writeFile(name, "");
    assert.equal(await layer.write(), 3);
    const entries = await entriesOf(layer.work);
    assert.equal(entries.get("small")?.text.length, 100_000);
    assert.equal(entries.has("large"), false);
    assert.equal([...entries.keys()].filter((path) => path.endsWith("d/")).length, 128);
  });
});
