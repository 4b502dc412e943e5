import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, readdir, readFile, rm, stat, symlink, utimes, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { describe, test } from "node:test";
import { promisify } from "node:util";
import { encodeCheckpoint, type PodSandboxCheckpoint } from "../../../checkpoints/checkpoint.js";
import {
  CheckpointDirectory,
  type CheckpointDirectoryOptions,
} from "../../../checkpoints/directory-store.js";
import { Flusher } from "../../../src/lib/files/flusher.js";
import { isKind } from "../../../src/lib/errors.js";
import { silentLogger } from "../../../src/lib/log.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { HeldFlushes } from "../lib/files/held-flushes.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";
import { oneMapping } from "./golden.js";

const id = "3f".repeat(32);
const checkpoint: PodSandboxCheckpoint = {
  version: "v1",
  name: "web-0",
  namespace: "default",
  data: { portMappings: [{ protocol: "tcp", containerPort: 80, hostPort: 8080 }] },
};

async function setUp(extra: Partial<CheckpointDirectoryOptions> = {}) {
  const directory = await temporaryDirectory();
  const own = join(directory.path, "sandbox");
  const other = join(directory.path, "cri-dockerd", "sandbox");
  const quarantine = join(directory.path, "quarantine");
  await mkdir(other, { recursive: true });
  const log = recordingLog();
  /** Another store on the same directories. */
  const reopen = (): Promise<CheckpointDirectory> =>
    CheckpointDirectory.open({
      ...{ directory: own, quarantineDirectory: quarantine, alsoRead: [other, own], log },
      ...extra,
    });
  const dispose = (): PromiseLike<void> => directory[Symbol.asyncDispose]();
  return {
    ...{ store: await reopen(), log, own, other, quarantine, reopen },
    [Symbol.asyncDispose]: dispose,
  };
}

/** What cri-dockerd wrote for `checkpoint`. */
const foreignFile = oneMapping.criDockerd.file;

describe("CheckpointDirectory", () => {
  test("put() writes dockershim's bytes, name and modes, and get() and list() find them", async () => {
    await using at = await setUp();
    await at.store.put(id, checkpoint);
    assert.deepEqual(await readdir(at.own), [id]);
    assert.deepEqual(new Uint8Array(await readFile(join(at.own, id))), encodeCheckpoint(checkpoint));
    assert.equal((await stat(join(at.own, id))).mode & 0o777, 0o600);
    assert.equal((await stat(at.own)).mode & 0o777, 0o755);
    assert.deepEqual(await (await at.reopen()).get(id), checkpoint);
    assert.deepEqual(await at.store.list(), [id]);
  });

  test("remove() succeeds twice, and get() then finds nothing", async () => {
    await using at = await setUp();
    await at.store.put(id, checkpoint);
    await at.store.remove(id);
    await at.store.remove(id);
    assert.equal(await at.store.get(id), undefined);
    assert.deepEqual(await at.store.list(), []);
  });

  test("list() looks at the directories every five seconds, and after each change of its own", async () => {
    let nowMs = 0;
    await using at = await setUp({ now: () => nowMs });
    assert.deepEqual(await at.store.list(), []);
    await writeFile(join(at.other, "cd"), foreignFile);
    nowMs = 4_999;
    assert.deepEqual(await at.store.list(), []);
    nowMs = 5_000;
    assert.deepEqual(await at.store.list(), ["cd"]);
    await at.store.put(id, checkpoint);
    assert.deepEqual(await at.store.list(), [id, "cd"]);
    await rm(join(at.other, "cd"));
    await at.store.remove(id);
    assert.deepEqual(await at.store.list(), []);
  });

  test("put() leaves the flush to the flusher, flushed() waits for it, and a removal is not flushed", async () => {
    const flusher = new Flusher(silentLogger());
    await using at = await setUp({ flusher });
    using flushes = await HeldFlushes.start();
    flushes.hold();
    await at.store.put(id, checkpoint);
    assert.deepEqual(await at.store.get(id), checkpoint);
    assert.deepEqual(flushes.done, []);
    flushes.release();
    await at.store.flushed(id, new AbortController().signal);
    assert.deepEqual(flushes.done, [id, basename(at.own)]);
    await at.store.remove(id);
    await flusher.close();
    assert.equal(flushes.done.length, 2);
  });

  test("put() makes the directory again when it has vanished", async () => {
    await using at = await setUp();
    await rm(at.own, { recursive: true });
    assert.deepEqual(await at.store.list(), []);
    assert.equal(await at.store.get(id), undefined);
    await at.store.put(id, checkpoint);
    assert.deepEqual(await at.store.get(id), checkpoint);
  });

  test("put() of one id many times at once: the last one stays", async () => {
    await using at = await setUp();
    const names = Array.from({ length: 20 }, (_, index) => `pod-${index}`);
    await Promise.all(names.map((name) => at.store.put(id, { ...checkpoint, name })));
    assert.equal((await at.store.get(id))?.name, "pod-19");
  });

  test("an id that cannot be a file name is refused by put() and simply not there for the others", async () => {
    await using at = await setUp();
    await writeFile(join(at.own, "..", "victim"), encodeCheckpoint(checkpoint));
    for (const key of ["../victim", "", ".", "..", ".hidden", "a/b", "a\0b", "x".repeat(2 ** 20)]) {
      await assert.rejects(at.store.put(key, checkpoint), (error) => isKind(error, "invalid"));
      assert.equal(await at.store.get(key), undefined);
      await at.store.remove(key);
    }
    assert.ok((await stat(join(at.own, "..", "victim"))).isFile());
  });

  test("open() and put() fail with the path when the directory cannot be made", async () => {
    await using at = await setUp();
    await rm(at.own, { recursive: true });
    await writeFile(at.own, "in the way");
    const named = { name: "ShimError", fields: { path: at.own, errno: "EEXIST" } };
    await assert.rejects(at.reopen(), named);
    await assert.rejects(at.store.put(id, checkpoint), named);
    assert.equal(await at.store.get(id), undefined);
  });
});

describe("corrupt checkpoints", () => {
  const run = promisify(execFile);
  const kinds: Readonly<Record<string, (path: string) => Promise<unknown>>> = {
    "an empty file": (path) => writeFile(path, ""),
    garbage: (path) => writeFile(path, "not json"),
    "a wrong checksum": (path) =>
      writeFile(path, '{"version":"v1","name":"n","namespace":"ns","data":{},"checksum":1}'),
    "null data": (path) => writeFile(path, '{"data":null,"checksum":1}'),
    "a huge file": (path) => writeFile(path, new Uint8Array(5 * 1024 * 1024)),
    "a directory": (path) => mkdir(path),
    "a link, even to a good one": async (path) => {
      const target = join(path, "..", "..", "elsewhere");
      await writeFile(target, encodeCheckpoint(checkpoint));
      await symlink(target, path);
    },
    "a FIFO": (path) => run("mkfifo", [path]),
  };
  for (const [name, make] of Object.entries(kinds))
    test(`${name}: moved to the quarantine, reported once, not there for get() and list()`, async () => {
      await using at = await setUp({ now: () => 0 });
      await make(join(at.own, id));
      assert.deepEqual(await at.store.list(), [id]);
      assert.equal(await at.store.get(id), undefined);
      assert.equal(await at.store.get(id), undefined);
      assert.deepEqual(await at.store.list(), []);
      assert.deepEqual(await readdir(at.own), []);
      const [moved = "", ...rest] = await readdir(at.quarantine);
      assert.deepEqual(rest, []);
      assert.ok(moved.startsWith(`sandbox-${id}-`), moved);
      assert.deepEqual(
        at.log.lines.map(({ fields: { sandboxId, path, quarantined } }) => [sandboxId, path, quarantined]),
        [[id, join(at.own, id), join(at.quarantine, moved)]],
      );
      assert.equal(at.store.corruptCount, 1);
      await at.store.put(id, checkpoint);
      assert.deepEqual(await at.store.get(id), checkpoint);
    });

  test("remove() and put() save a corrupt file too", async () => {
    await using at = await setUp();
    for (const change of [() => at.store.remove(id), () => at.store.put(id, checkpoint)]) {
      await writeFile(join(at.own, id), "precious");
      await change();
    }
    const saved = await readdir(at.quarantine);
    assert.equal(saved.length, 2);
    for (const name of saved) assert.equal(await readFile(join(at.quarantine, name), "utf8"), "precious");
  });

  test("stay where they are when the quarantine cannot be made, reported once", async () => {
    await using at = await setUp();
    await writeFile(at.quarantine, "in the way");
    await writeFile(join(at.own, id), "precious");
    assert.equal(await at.store.get(id), undefined);
    await at.store.remove(id);
    assert.equal(await readFile(join(at.own, id), "utf8"), "precious");
    assert.deepEqual(await at.store.list(), []);
    assert.equal(at.log.lines.length, 1);
    assert.equal(at.log.lines[0]?.fields["quarantined"], undefined);
  });
});

test("open() sweeps temporary files of this program, old ones of dockershim, and nothing else", async () => {
  await using at = await setUp();
  const old = new Date(Date.now() - 3_600_000);
  const stale = [".dockershim-0123456789abcdef", ".123456789"];
  const kept = [".dockershim-0123456789abcdeg", ".123456789x", ".keep", id];
  const foreign = join(at.other, ".123456789");
  for (const path of [foreign, ...[...stale, ...kept].map((name) => join(at.own, name))]) {
    await writeFile(path, encodeCheckpoint(checkpoint));
    await utimes(path, old, old);
  }
  await writeFile(join(at.own, ".987654321"), "written right now");
  await writeFile(join(at.own, ".dockershim-00112233445566aa"), "written right before the kill");
  await at.reopen();
  assert.deepEqual((await readdir(at.own)).sort(), [...kept, ".987654321"].sort());
  assert.deepEqual(await at.store.list(), [id]);
  assert.ok((await stat(foreign)).isFile());
});

describe("directories of other programs", () => {
  test("get() falls back to them, ours first, and list() joins them", async () => {
    await using at = await setUp();
    await writeFile(join(at.other, id), foreignFile);
    await writeFile(join(at.other, "cd"), foreignFile);
    assert.deepEqual(await at.store.get(id), checkpoint);
    await at.store.put(id, { ...checkpoint, name: "ours" });
    assert.equal((await at.store.get(id))?.name, "ours");
    assert.equal(await readFile(join(at.other, id), "utf8"), foreignFile);
    assert.deepEqual(await at.store.list(), [id, "cd"]);
  });

  test("get() falls back to them when our file is corrupt", async () => {
    await using at = await setUp();
    await writeFile(join(at.own, id), "");
    await writeFile(join(at.other, id), foreignFile);
    assert.deepEqual(await at.store.get(id), checkpoint);
  });

  test("remove() removes from both", async () => {
    await using at = await setUp();
    await at.store.put(id, checkpoint);
    await writeFile(join(at.other, id), foreignFile);
    await at.store.remove(id);
    assert.deepEqual([...(await readdir(at.own)), ...(await readdir(at.other))], []);
  });

  test("a corrupt file there is reported once, left alone, and not listed", async () => {
    await using at = await setUp();
    await writeFile(join(at.other, id), "of a later release");
    assert.equal(await at.store.get(id), undefined);
    await at.store.remove(id);
    assert.equal(await readFile(join(at.other, id), "utf8"), "of a later release");
    assert.equal(at.log.lines.length, 1);
    assert.deepEqual(await at.store.list(), []);
    await writeFile(join(at.other, id), foreignFile);
    assert.deepEqual(await at.store.get(id), checkpoint);
    assert.deepEqual(await at.store.list(), [id]);
  });

  test("a missing directory is an empty one", async () => {
    await using at = await setUp({ alsoRead: ["/nonexistent/sandbox", "/dev/null/sandbox"] });
    assert.deepEqual(await at.store.list(), []);
    assert.equal(await at.store.get(id), undefined);
    await at.store.remove(id);
  });
});
