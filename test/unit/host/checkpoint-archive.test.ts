import assert from "node:assert/strict";
import { type FileHandle, mkdir, open, readdir, readFile, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, mock, test } from "node:test";
import { extract } from "tar-stream";
import { ShimError } from "../../../src/lib/errors.js";
import { archiveCheckpoint } from "../../../src/shim/host/checkpoint-archive.js";
import { ProcFiles } from "../../../src/shim/host/processes/proc-files.js";
import type { CheckpointContent } from "../../../src/shim/ports/host.js";
import { rejectsWith } from "../../support/refusals.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

const containerId = "c".repeat(64);
const spec = { ociVersion: "1.0.2", annotations: { kept: "yes" } };

/** A container with process 20, whose supervisor 10 works in its bundle. */
async function fixture({ bundle = true } = {}) {
  const directory = await temporaryDirectory();
  const proc = join(directory.path, "proc");
  const [work, kept] = [join(directory.path, "bundle"), join(directory.path, "checkpoints")];
  for (const path of [join(proc, "10"), join(proc, "20"), work, kept]) await mkdir(path, { recursive: true });
  await writeFile(join(proc, "20", "cgroup"), `0::/docker/${containerId}\n`);
  const zeros = Array.from({ length: 17 }, () => "0").join(" ");
  await writeFile(join(proc, "20", "stat"), `20 (sh) S 10 20 20 ${zeros} 1 0\n`);
  await symlink(work, join(proc, "10", "cwd"));
  if (bundle) await writeFile(join(work, "config.json"), JSON.stringify(spec));
  return {
    location: join(kept, "web.tar"),
    left: () => readdir(kept),
    archive: (
      dump: (directory: string) => Promise<CheckpointContent>,
      signal = new AbortController().signal,
      pid = 20,
    ) => archiveCheckpoint({ containerId, pid }, join(kept, "web.tar"), dump, signal, new ProcFiles(proc)),
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  };
}

async function dumpInto(directory: string): Promise<CheckpointContent> {
  const images = join(directory, "images");
  await mkdir(join(images, "deeper"), { recursive: true });
  await writeFile(join(images, "pages-1.img"), Buffer.alloc(300_000, 7));
  await writeFile(join(images, "empty.img"), "");
  await symlink("pages-1.img", join(images, "deeper", "link"));
  return { images, config: { id: containerId }, annotations: { name: "main" } };
}

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
        ...["config.dump", "spec.dump", "checkpoint/", "checkpoint/deeper/", "checkpoint/deeper/link"],
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

  for (const [what, dump, kind, message] of [
    ["the engine fails", () => Promise.reject(new ShimError("unknown", "no criu")), "unknown", /no criu/],
    [
      "the engine wrote nothing",
      (directory: string) =>
        Promise.resolve({ images: join(directory, "images"), config: {}, annotations: {} }),
      "unsupported",
      /write checkpoint ".*web\.tar": the Docker Engine wrote it elsewhere/,
    ],
  ] as const) {
    test(`leaves the older archive, and nothing else, when ${what}`, async () => {
      await using files = await fixture();
      await writeFile(files.location, "older");
      await rejectsWith(files.archive(dump), kind, message);
      assert.deepEqual(await files.left(), ["web.tar"]);
      assert.equal(await readFile(files.location, "utf8"), "older");
    });
  }

  test("ends with its signal, and leaves nothing", async () => {
    await using files = await fixture();
    const caller = new AbortController();
    const archiving = files.archive(async (directory) => {
      const content = await dumpInto(directory);
      caller.abort(new ShimError("cancelled", "the caller left"));
      return content;
    }, caller.signal);
    await rejectsWith(archiving, "cancelled", /the caller left/);
    assert.deepEqual(await files.left(), []);
  });

  test("is unsupported, before anything is made, for another process, and without a bundle in reach", async () => {
    for (const [options, pid] of [
      [{}, 10],
      [{}, 0],
      [{ bundle: false }, 20],
    ] as const) {
      await using files = await fixture(options);
      let dumped = false;
      const archiving = files.archive(
        (directory) => {
          dumped = true;
          return dumpInto(directory);
        },
        undefined,
        pid,
      );
      await rejectsWith(archiving, "unsupported", /out of reach/);
      assert.equal(dumped, false);
      assert.deepEqual(await files.left(), []);
    }
  });
});
