import assert from "node:assert/strict";
import {
  chown,
  type FileHandle,
  mkdir,
  open,
  readdir,
  readFile,
  stat,
  symlink,
  writeFile,
} from "node:fs/promises";
import { join } from "node:path";
import { describe, mock, test } from "node:test";
import { extract } from "tar-stream";
import { ShimError } from "../../../src/lib/errors.js";
import { markOf } from "../../../src/lib/linux/process-mark.js";
import { archiveCheckpoint } from "../../../src/shim/host/checkpoint-archive.js";
import { rejectsWith } from "../../support/refusals.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

const containerId = "c".repeat(64);
const spec = { ociVersion: "1.0.2", annotations: { kept: "yes" } };

const content = { config: { id: containerId }, annotations: { name: "main" } };

type Dump = Parameters<typeof archiveCheckpoint>[3];

async function fixture() {
  const directory = await temporaryDirectory();
  const location = join(directory.path, "web.tar");
  return {
    location,
    directory: directory.path,
    left: () => readdir(directory.path),
    archive: (dump: Dump, signal = new AbortController().signal) =>
      archiveCheckpoint({ spec }, location, content, dump, signal),
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  };
}

const dumpInto: Dump = async ({ images, work }) => {
  await mkdir(join(images, "deeper"), { recursive: true });
  await writeFile(join(images, "pages-1.img"), Buffer.alloc(300_000, 7));
  await writeFile(join(images, "empty.img"), "");
  await symlink("pages-1.img", join(images, "deeper", "link"));
  await writeFile(join(work, "dump.log"), "all went well");
  await writeFile(join(work, "other"), "");
};

async function entriesOf(path: string): Promise<ReadonlyMap<string, string>> {
  const tar = extract();
  const entries = new Map<string, string>();
  tar.end(await readFile(path));
  for await (const entry of tar) {
    const chunks: Buffer[] = [];
    for await (const chunk of entry) chunks.push(chunk as Buffer);
    const { name, type, linkname } = entry.header;
    entries.set(name, type === "symlink" ? `→ ${linkname}` : Buffer.concat(chunks).toString());
  }
  return entries;
}

/**
 * From now on each write() to a file takes half of what it is given, as a signal or a file system may have
 * it.
 */
async function shortWrites(path: string) {
  const file = await open(path, "w");
  const handles = Object.getPrototypeOf(file) as FileHandle;
  await file.close();
  const original = Reflect.get(handles, "write") as (
    this: FileHandle,
    ...args: [data: Buffer, start: number, length: number]
  ) => Promise<unknown>;
  const { mock: write } = mock.method(
    handles,
    "write",
    function (this: FileHandle, data: Buffer, start = 0, length = data.length - start) {
      return original.call(this, data, start, Math.ceil(length / 2));
    },
  );
  return {
    write,
    restore: () => {
      write.restore();
    },
  };
}

describe("archiveCheckpoint()", () => {
  test("holds config, specification and CRIU's files, for root alone, and leaves nothing else", async () => {
    await using files = await fixture();
    await writeFile(files.location, "older");
    await files.archive(dumpInto);
    const entries = await entriesOf(files.location);
    assert.deepEqual(
      [...entries.keys()],
      [
        ...[
          "config.dump",
          "spec.dump",
          "dump.log",
          "checkpoint/",
          "checkpoint/deeper/",
          "checkpoint/deeper/link",
        ],
        ...["checkpoint/empty.img", "checkpoint/pages-1.img"],
      ],
    );
    assert.deepEqual(JSON.parse(entries.get("config.dump") ?? ""), { id: containerId });
    assert.deepEqual(JSON.parse(entries.get("spec.dump") ?? ""), {
      ...spec,
      annotations: { kept: "yes", name: "main" },
    });
    assert.equal(entries.get("checkpoint/deeper/link"), "→ pages-1.img");
    assert.equal(entries.get("checkpoint/pages-1.img")?.length, 300_000);
    assert.equal((await stat(files.location)).mode & 0o777, 0o600);
    assert.deepEqual(await files.left(), ["web.tar"]);
  });

  test("is complete when each write only writes a part", async () => {
    await using files = await fixture();
    const { write, restore } = await shortWrites(files.location);
    try {
      await files.archive(dumpInto);
    } finally {
      restore();
    }
    assert.ok(write.callCount() > 0);
    const entries = await entriesOf(files.location);
    assert.equal(entries.get("checkpoint/pages-1.img")?.length, 300_000);
    assert.equal((await stat(files.location)).size % 512, 0);
  });

  test("leaves the older archive, and nothing else, when CRIU fails", async () => {
    await using files = await fixture();
    await writeFile(files.location, "older");
    const dump: Dump = async (to) => {
      await dumpInto(to);
      throw new ShimError("unknown", "no criu");
    };
    await rejectsWith(files.archive(dump), "unknown", /no criu/);
    assert.deepEqual(await files.left(), ["web.tar"]);
    assert.equal(await readFile(files.location, "utf8"), "older");
  });

  test("removes what processes left that have ended, also with the number of one that lives, and nothing of others", async () => {
    await using files = await fixture();
    const prefix = ".dockershim-checkpoint-";
    const own = `${prefix}${process.pid}-${markOf(process.pid)?.startTime}-a`;
    // No process has a number that large; none was started at the first moment.
    const ended = [`${prefix}4194305-1-a`, `${prefix}${process.pid}-1-a`];
    const foreign = `${prefix}4194305-2-a`;
    for (const name of [...ended, own, foreign, "checkpoint"])
      await mkdir(join(files.directory, name, "images"), { recursive: true });
    const isRoot = process.geteuid?.() === 0;
    if (isRoot) await chown(join(files.directory, foreign), 1, 1);
    await files.archive(dumpInto);
    const expected = [own, "checkpoint", "web.tar", ...(isRoot ? [foreign] : [])];
    assert.deepEqual([...(await files.left())].sort(), expected.sort());
  });

  test("ends with its signal, and leaves nothing", async () => {
    await using files = await fixture();
    const caller = new AbortController();
    const archiving = files.archive(async (to) => {
      await dumpInto(to);
      caller.abort(new ShimError("cancelled", "the caller left"));
    }, caller.signal);
    await rejectsWith(archiving, "cancelled", /the caller left/);
    assert.deepEqual(await files.left(), []);
  });
});
