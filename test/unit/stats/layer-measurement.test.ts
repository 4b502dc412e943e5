import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { link, mkdir, readdir, rename, symlink, writeFile } from "node:fs/promises";
import { after, describe, test } from "node:test";
import { orAbort } from "../../../src/lib/abort.js";
import { ShimError } from "../../../src/lib/errors.js";
import { HelperProcess } from "../../../src/shim/native/helper-process.js";
import { programPath } from "../../../src/shim/native/programs.js";
import { byHelper, layerMeasurement } from "../../../src/shim/stats/layer-measurement.js";
import { rejectsWith } from "../../support/refusals.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { idOf, snapshotOf } from "../../fakes/snapshots.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

const never = new AbortController().signal;
const program = (): string => programPath("helper", process.arch, "");
const helper = new HelperProcess({ program, log: recordingLog() });
after(() => helper.close());
const { startVerb } = helper;
const size = (path: string, timeoutMs?: number): ReturnType<typeof byHelper> =>
  byHelper(path, startVerb, never, timeoutMs);
const du = (path: string, ...flags: readonly string[]): number =>
  Number(execFileSync("du", ["-sx", ...flags, path], { encoding: "utf8" }).split("\t")[0]);

async function assertAsDu(path: string): Promise<void> {
  const usage = await size(path);
  assert.deepEqual(
    [usage?.usedBytes, usage?.inodes, usage?.isPartial],
    [du(path, "-B1"), du(path, "--inodes"), false],
  );
}

/** Makes a directory and goes into it, `depth` times; `at` is told of each depth. */
function dig(path: string, name: string, depth: number, at: (depth: number) => void): void {
  const before = process.cwd();
  try {
    process.chdir(path);
    for (let level = 1; level <= depth; level += 1) {
      mkdirSync(name);
      process.chdir(name);
      at(level);
    }
  } finally {
    process.chdir(before);
  }
}

describe("byHelper()", () => {
  test("counts as du does: blocks, hard links once, links not followed", async () => {
    await using directory = await temporaryDirectory();
    const { path } = directory;
    await mkdir(`${path}/a/b`, { recursive: true });
    await writeFile(`${path}/a/b/file`, Buffer.alloc(100_000, 1));
    await writeFile(`${path}/a/sparse`, "");
    for (const name of ["second", "third"]) await link(`${path}/a/b/file`, `${path}/${name}`);
    await symlink("/usr", `${path}/usr`);
    await assertAsDu(path);
  });

  test("counts what lies below a path that is longer than the kernel takes", async () => {
    await using directory = await temporaryDirectory();
    const { path } = directory;
    try {
      // 50,000 bytes deep, with branches on the way.
      dig(path, "d".repeat(250), 200, (level) => {
        for (const side of ["a", "b", "c"]) mkdirSync(side);
        if (level % 10 === 0) writeFileSync("c/big", Buffer.alloc(100_000, 1));
      });
      await assertAsDu(path);
    } finally {
      execFileSync("rm", ["-rf", `${path}/${"d".repeat(250)}`]);
    }
  });

  test("counts files whose names are not UTF-8", async () => {
    await using directory = await temporaryDirectory();
    const { path } = directory;
    const strange = Buffer.from(`${path}/\xff\xfea`, "latin1");
    mkdirSync(strange);
    const inside = Buffer.concat([strange, Buffer.from("/\xc3", "latin1")]);
    writeFileSync(inside, Buffer.alloc(100_000, 1));
    await assertAsDu(path);
    // Where the directory is removed, its name is text.
    rmSync(inside);
    rmdirSync(strange);
  });

  test("ends, with what is there all the time, while directories are moved and replaced by links", async () => {
    await using directory = await temporaryDirectory();
    await using elsewhere = await temporaryDirectory();
    const { path } = directory;
    await writeFile(`${elsewhere.path}/big`, Buffer.alloc(10_000_000, 1));
    for (let index = 0; index < 300; index += 1) await writeFile(`${path}/file-${index}`, "x");
    dig(path, "d", 150, () => mkdirSync("side"));
    const deep = `${path}/${"d/".repeat(100)}d`;
    let isOver = false;
    const moves = (async () => {
      while (!isOver) {
        await rename(deep, `${path}/moved`);
        await symlink(elsewhere.path, deep);
        await new Promise((resolve) => setImmediate(resolve));
        rmSync(deep);
        await rename(`${path}/moved`, deep);
      }
    })();
    for (let rounds = 0; rounds < 20; rounds += 1) {
      const usage = await size(path);
      assert.ok((usage?.inodes ?? 0) >= 300 + 2 * 100, String(usage?.inodes));
      assert.ok((usage?.usedBytes ?? Infinity) < 10_000_000);
    }
    isOver = true;
    await moves;
  });

  test("tells what it has counted when the time is up", async () => {
    await using directory = await temporaryDirectory();
    for (let index = 0; index < 600; index += 1) await writeFile(`${directory.path}/f${index}`, "x");
    let usage;
    // It looks at the clock now and then, and the time may stand still.
    for (let rounds = 0; usage?.isPartial !== true && rounds < 1000; rounds += 1)
      usage = await size(directory.path, 0);
    assert.equal(usage?.isPartial, true);
    assert.ok((usage.inodes ?? 0) >= 250 && (usage.inodes ?? 0) < 601, String(usage.inodes));
  });

  test("is undefined for a path that is no directory", async () => {
    await using directory = await temporaryDirectory();
    await writeFile(`${directory.path}/file`, "");
    await symlink(".", `${directory.path}/link`);
    for (const name of ["file", "none", "link"])
      assert.equal(await size(`${directory.path}/${name}`), undefined);
  });

  test("leaves no process and no file open in the helper", async () => {
    const files = async (): Promise<number> => (await readdir(`/proc/${helper.pid}/fd`)).length;
    await size("/tmp", 0);
    const before = await files();
    for (let rounds = 0; rounds < 20; rounds += 1) await size("/", 0);
    assert.equal(await files(), before);
  });
});

describe("layerMeasurement()", () => {
  const container = snapshotOf({ id: idOf("a") });
  const hostOf = (directory: string | undefined) => () => ({
    writableLayer: () => Promise.resolve(directory),
  });

  const noHelper = (): never => {
    throw new ShimError("unsupported", "there is no helper");
  };
  for (const [what, directory, start] of [
    ["whose directory is out of reach", undefined, startVerb],
    ["where there is no helper", "/layer", noHelper],
  ] as const) {
    test(`asks the engine for a layer ${what}`, async () => {
      const engine = { writableLayerBytes: () => Promise.resolve(7) };
      const measure = layerMeasurement({ host: hostOf(directory), engine, startVerb: start });
      const usage = await measure(container, never);
      assert.deepEqual([usage?.usedBytes, usage?.inodes, usage?.isPartial], [7, undefined, false]);
    });
  }

  test("limits the wait for an engine that does not answer", async () => {
    const writableLayerBytes = (_: string, signal: AbortSignal) =>
      orAbort(new Promise<never>(() => undefined), signal);
    const host = hostOf(undefined);
    const measure = layerMeasurement({ host, engine: { writableLayerBytes }, startVerb, engineLimitMs: 20 });
    await rejectsWith(measure(container, never), "timeout", /size container/);
    assert.equal(never.aborted, false);
  });
});
