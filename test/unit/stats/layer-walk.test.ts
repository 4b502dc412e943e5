import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { link, mkdir, rename, symlink, writeFile } from "node:fs/promises";
import { describe, test } from "node:test";
import { Pace, walkLayer } from "../../../src/shim/stats/layer-walk.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

const pace = new Pace({ entriesPerSecond: 1e9 });
const signal = new AbortController().signal;

describe("walkLayer()", () => {
  test("counts as du does: blocks, hard links once, links not followed", async () => {
    await using directory = await temporaryDirectory();
    const { path } = directory;
    await mkdir(`${path}/a/b`, { recursive: true });
    await writeFile(`${path}/a/b/file`, Buffer.alloc(100_000, 1));
    await writeFile(`${path}/a/sparse`, "");
    await link(`${path}/a/b/file`, `${path}/again`);
    await symlink("/usr", `${path}/usr`);
    const usage = await walkLayer(path, pace, signal);
    const [bytes] = execFileSync("du", ["-s", "-B1", path], { encoding: "utf8" }).split("\t");
    assert.equal(usage?.usedBytes, Number(bytes));
    // The directory itself, a, b, file, sparse and usr.
    assert.equal(usage.inodes, 6);
    assert.ok(usage.timestamp > 0n);
  });

  test("does not enter a directory that was replaced meanwhile", async () => {
    await using directory = await temporaryDirectory();
    await using elsewhere = await temporaryDirectory();
    const { path } = directory;
    await writeFile(`${elsewhere.path}/big`, Buffer.alloc(1_000_000, 1));
    await mkdir(`${path}/inner`);
    // 200 entries make one batch: the pause after it comes when all of the top directory has been looked at.
    for (let index = 0; index < 199; index += 1) await writeFile(`${path}/f${index}`, "");
    let exchanged = false;
    const usage = await walkLayer(
      path,
      new Pace({
        entriesPerSecond: 1,
        now: () => 0,
        pause: async () => {
          if (exchanged) return;
          exchanged = true;
          await rename(`${path}/inner`, `${path}/former`);
          await symlink(elsewhere.path, `${path}/inner`);
        },
      }),
      signal,
    );
    assert.ok(exchanged);
    assert.ok((usage?.usedBytes ?? Infinity) < 1_000_000);
  });

  test("keeps to its rate", async () => {
    await using directory = await temporaryDirectory();
    for (let index = 0; index < 450; index += 1) await writeFile(`${directory.path}/f${index}`, "");
    let nowMs = 0;
    const pauses: number[] = [];
    const pause = (ms: number): Promise<void> => {
      pauses.push(ms);
      nowMs += ms;
      return Promise.resolve();
    };
    await walkLayer(directory.path, new Pace({ entriesPerSecond: 100, now: () => nowMs, pause }), signal);
    assert.deepEqual(pauses, [2000, 2000]);
  });

  test("keeps to one rate when two go on at once, and lets both of them go on", async () => {
    await using directory = await temporaryDirectory();
    for (let index = 0; index < 450; index += 1) await writeFile(`${directory.path}/f${index}`, "");
    let pausedMs = 0;
    const pause = (ms: number): Promise<void> => {
      pausedMs = Math.max(pausedMs, ms);
      return Promise.resolve();
    };
    const shared = new Pace({ entriesPerSecond: 100, now: () => 0, pause });
    await Promise.all([walkLayer(directory.path, shared, signal), walkLayer(directory.path, shared, signal)]);
    // Of 900 entries four whole batches are waited for.
    assert.equal(pausedMs, 8_000);
  });

  /** Makes a directory and goes into it, `depth` times; `at` is told of each depth. */
  const dig = (path: string, name: string, depth: number, at: (depth: number) => void): void => {
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
  };
  const du = (path: string): number =>
    Number(execFileSync("du", ["-s", "-B1", path], { encoding: "utf8" }).split("\t")[0]);

  test("counts what lies below a path that is longer than the kernel takes", async () => {
    await using directory = await temporaryDirectory();
    const { path } = directory;
    try {
      // 25,000 bytes deep, with branches on the way.
      dig(path, "d".repeat(250), 100, (level) => {
        for (const side of ["a", "b", "c"]) mkdirSync(side);
        if (level % 10 === 0) writeFileSync("c/big", Buffer.alloc(100_000, 1));
      });
      const usage = await walkLayer(path, pace, signal);
      assert.equal(usage?.usedBytes, du(path));
      assert.equal(usage.inodes, 1 + 100 * 4 + 10);
      assert.equal(usage.shortfall, undefined);
    } finally {
      execFileSync("rm", ["-rf", `${path}/${"d".repeat(250)}`]);
    }
  });

  test("holds a limited number of directories of a deep tree open", async () => {
    await using directory = await temporaryDirectory();
    const { path } = directory;
    dig(path, "d", 500, () => undefined);
    let most = 0;
    const before = readdirSync("/proc/self/fd").length;
    const slow = new Pace({
      entriesPerSecond: 1,
      now: () => 0,
      pause: () => {
        most = Math.max(most, readdirSync("/proc/self/fd").length - before);
        return Promise.resolve();
      },
    });
    assert.equal((await walkLayer(path, slow, signal))?.inodes, 501);
    assert.ok(most > 10 && most < 100, String(most));
    assert.equal(readdirSync("/proc/self/fd").length, before);
  });

  test("counts files whose names are not UTF-8", async () => {
    await using directory = await temporaryDirectory();
    const { path } = directory;
    const strange = Buffer.concat([Buffer.from(`${path}/`), Buffer.from([0xff, 0xfe, 0x61])]);
    mkdirSync(strange);
    const inside = Buffer.concat([strange, Buffer.from("/"), Buffer.from([0xc3])]);
    writeFileSync(inside, Buffer.alloc(100_000, 1));
    const usage = await walkLayer(path, pace, signal);
    assert.deepEqual([usage?.usedBytes, usage?.inodes], [du(path), 3]);
    // Where the directory is removed, its name is text.
    rmSync(inside);
    rmdirSync(strange);
  });

  test("says of a tree that is too wide or too deep that not all of it was counted", async () => {
    for (const [depth, width] of [
      [1, 30],
      [30, 1],
    ] as const) {
      await using directory = await temporaryDirectory();
      dig(directory.path, "d", depth, () => {
        for (let index = 1; index < width; index += 1) mkdirSync(`w${index}`);
      });
      const whole = await walkLayer(directory.path, pace, signal, 40);
      assert.equal(whole?.shortfall, undefined);
      const part = await walkLayer(directory.path, pace, signal, 10);
      assert.match(String(part?.shortfall), /more than 10 directories/);
      assert.ok((part?.inodes ?? 0) <= (whole?.inodes ?? 0));
      assert.ok((part?.usedBytes ?? 0) > 0);
    }
  });

  test("continues with the rest when the container moves a deep directory away", async () => {
    await using directory = await temporaryDirectory();
    const { path } = directory;
    mkdirSync(`${path}/elsewhere`);
    // One that is moved has a parent that was closed. Directories are entered in any order.
    dig(path, "d", 150, (level) => {
      if (level === 120) for (let index = 0; index < 250; index += 1) writeFileSync(`f${index}`, "");
      mkdirSync("side");
      if (level < 10) writeFileSync("side/file", "");
    });
    let isMoved = false;
    const moving = new Pace({
      entriesPerSecond: 1,
      now: () => 0,
      pause: async () => {
        const deep = `${path}/${"d/".repeat(110)}d`;
        if (isMoved || readdirSync(deep).length === 0) return Promise.resolve();
        isMoved = true;
        await rename(deep, `${path}/elsewhere/moved`);
      },
    });
    const usage = await walkLayer(path, moving, signal);
    assert.ok(isMoved);
    // All that is above the one that was moved.
    assert.ok((usage?.inodes ?? 0) > 110, String(usage?.inodes));
  });

  test("returns a partial count when its signal aborts, and closes all directories", async () => {
    await using directory = await temporaryDirectory();
    for (let index = 0; index < 450; index += 1) await writeFile(`${directory.path}/f${index}`, "x");
    const stop = new AbortController();
    const before = readdirSync("/proc/self/fd").length;
    const stopping = new Pace({
      entriesPerSecond: 1,
      now: () => 0,
      pause: (_, own) => {
        stop.abort(new Error("enough"));
        own.throwIfAborted();
        return Promise.resolve();
      },
    });
    const usage = await walkLayer(directory.path, stopping, stop.signal);
    assert.equal(usage?.shortfall, "enough");
    assert.equal(usage.inodes, 200);
    assert.ok(usage.usedBytes >= 199 * 512);
    assert.equal(readdirSync("/proc/self/fd").length, before);
  });

  test("is undefined for a path that is no directory, and ends at once with an aborted signal", async () => {
    await using directory = await temporaryDirectory();
    await writeFile(`${directory.path}/file`, "");
    const usage = await walkLayer(directory.path, pace, AbortSignal.abort(new Error("enough")));
    assert.deepEqual([usage?.shortfall, usage?.inodes], ["enough", 1]);
    assert.equal(await walkLayer(`${directory.path}/file`, pace, signal), undefined);
    assert.equal(await walkLayer(`${directory.path}/none`, pace, signal), undefined);
  });
});
