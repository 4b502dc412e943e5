import assert from "node:assert/strict";
import { Readable } from "node:stream";
import { describe, test } from "node:test";
import fc from "fast-check";
import { extract, pack, type Header } from "tar-stream";
import { changedEntries } from "../../../src/shim/engine/tar-entries.js";
import { rejectsWith } from "../../support/refusals.js";
import { streamOf } from "./pieces.js";

type Owner = { readonly uid: number; readonly gid: number };

async function collect(chunks: AsyncIterable<Buffer>): Promise<Buffer> {
  const all: Buffer[] = [];
  for await (const chunk of chunks) all.push(chunk);
  return Buffer.concat(all);
}

/** What comes through, without what is named. */
const changed = (tar: Buffer, sizes: readonly number[], leaveOut = new Set<string>(), root?: Owner) =>
  collect(changedEntries(streamOf(tar, sizes), { leaveOut, root }, "copy"));

/** Reads so many chunks, and leaves the rest. */
async function take(chunks: AsyncIterable<Buffer>, count: number): Promise<void> {
  let taken = 0;
  for await (const _ of chunks) if (++taken === count) return;
}

async function tarOf(
  entries: readonly (Partial<Header> & { name: string; text?: string })[],
): Promise<Buffer> {
  const tar = pack();
  for (const { text, ...header } of entries) tar.entry(header, text ?? "");
  tar.finalize();
  return collect(tar as AsyncIterable<Buffer>);
}

async function headersIn(tar: Buffer): Promise<readonly Header[]> {
  const entries = extract();
  entries.end(tar);
  const headers: Header[] = [];
  for await (const entry of entries) {
    headers.push(entry.header);
    entry.resume();
  }
  return headers;
}

const long = `deep/${"x".repeat(200)}`;
/** Turns the file of this name into the extended header of the entry behind it. */
function withExtendedHeader(tar: Buffer, name: string): Buffer {
  const header = tar.subarray(tar.indexOf(`${name}\0`)).subarray(0, 512);
  header[156] = "x".charCodeAt(0);
  header.fill(" ", 148, 156);
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "latin1");
  return tar;
}

const sampleEntries = await tarOf([
  { name: "./", type: "directory" },
  { name: "./.dockerenv", text: "" },
  { name: "./etc/", type: "directory" },
  { name: "./etc/hosts", text: "h".repeat(700) },
  { name: "./etc/hosts2", text: "kept" },
  { name: "/dev/pts/", type: "directory" },
  { name: long, text: "l".repeat(1024) },
  { name: "PaxHeaders/ping", text: "33 SCHILY.xattr.user.note=binary\n" },
  { name: "./bin/ping", text: "p" },
  { name: "./link", type: "link", linkname: "./etc/hosts2" },
]);
const sample = withExtendedHeader(sampleEntries, "PaxHeaders/ping");
const leaveOut = new Set([".dockerenv", "etc/hosts", "dev/pts"]);

describe("changedEntries()", () => {
  test("leaves out what is named, its content included, and passes the rest byte for byte", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.integer({ min: 1, max: 3000 }), { minLength: 1 }), async (sizes) => {
        assert.ok((await changed(sample, sizes)).equals(sample));
        const filtered = await changed(sample, sizes, leaveOut);
        const names = (await headersIn(filtered)).map(({ name }) => name);
        assert.deepEqual(names, ["./", "./etc/", "./etc/hosts2", long, "./bin/ping", "./link"]);
      }),
      { numRuns: 30 },
    );
  });

  test("takes the extended header of an entry away with it", async () => {
    const filtered = await changed(sample, [512], new Set(["bin/ping"]));
    assert.ok(!filtered.includes("SCHILY.xattr"));
    assert.ok(sample.includes("SCHILY.xattr"));
  });

  test("gives files to whom an engine with remapped users knows as their owner", async () => {
    const owners = [
      { name: "root", uid: 100_000, gid: 200_000 },
      { name: "user", uid: 101_000, gid: 201_000 },
      { name: "unmapped", uid: 7, gid: 8 },
    ];
    const root = { uid: 100_000, gid: 200_000 };
    const tar = await tarOf(owners.map((owner) => ({ ...owner, text: "content" })));
    const owned = (await headersIn(await changed(tar, [300], undefined, root))).map(({ name, uid, gid }) => [
      name,
      uid,
      gid,
    ]);
    assert.deepEqual(owned, [
      ["root", 0, 0],
      ["user", 1000, 1000],
      ["unmapped", 7, 8],
    ]);
  });

  test("reads sizes of 8 GiB and more", async () => {
    const header = Buffer.from(sample.subarray(0, 512));
    header[156] = "0".charCodeAt(0);
    header[124] = 0x80;
    header.writeBigUInt64BE(9n * 1024n ** 3n, 128);
    // The entry does not end: that is said, and nothing of that size is allocated.
    await rejectsWith(changed(header, [512]), "unknown", /^copy: .*ends within an entry/);
  });

  for (const [what, tar, taken] of [
    ["its reader stops within an entry", sample, 2],
    ["the tar is broken", Buffer.concat([sample.subarray(0, 512), Buffer.alloc(1024, "x")]), Infinity],
  ] as const) {
    test(`ends the source when ${what}`, async () => {
      const source = Readable.from(streamOf(tar, [300]), { objectMode: false });
      const entries = changedEntries(source as AsyncIterable<Buffer>, { leaveOut: new Set() }, "copy");
      await take(entries, taken).catch(() => undefined);
      assert.equal(source.destroyed, true);
    });
  }

  for (const [what, tar] of [
    ["no tar", Buffer.from("<html>".repeat(200))],
    ["a header that is cut off", sample.subarray(0, 100)],
    ["an entry that is cut off", sample.subarray(0, 512 * 5)],
  ] as const) {
    test(`${what} is an error`, async () => {
      const message = /^copy: the engine's answer is not a tar archive/;
      await rejectsWith(changed(tar, [300], leaveOut), "unknown", message);
    });
  }
});
