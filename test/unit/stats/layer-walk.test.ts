import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { link, mkdir, rename, symlink, writeFile } from "node:fs/promises";
import { describe, test } from "node:test";
import { Pace, walkLayer } from "../../../src/shim/stats/layer-walk.js";
import { temporaryDirectory } from "../base/temporary-directory.js";

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

  test("does not enter a directory that was exchanged for a link, or for another one, meanwhile", async () => {
    await using directory = await temporaryDirectory();
    await using elsewhere = await temporaryDirectory();
    const { path } = directory;
    await writeFile(`${elsewhere.path}/big`, Buffer.alloc(1_000_000, 1));
    await mkdir(`${path}/inner`);
    // 200 entries make one batch: the pause after it comes when all of the top directory has been looked at.
    for (let index = 0; index < 199; index += 1) await writeFile(`${path}/f${String(index)}`, "");
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
    for (let index = 0; index < 450; index += 1) await writeFile(`${directory.path}/f${String(index)}`, "");
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
    for (let index = 0; index < 450; index += 1) await writeFile(`${directory.path}/f${String(index)}`, "");
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

  test("ends with its signal, and is undefined for what is no directory", async () => {
    await using directory = await temporaryDirectory();
    await writeFile(`${directory.path}/file`, "");
    await assert.rejects(walkLayer(directory.path, pace, AbortSignal.abort(new Error("enough"))), /enough/);
    assert.equal(await walkLayer(`${directory.path}/file`, pace, signal), undefined);
    assert.equal(await walkLayer(`${directory.path}/none`, pace, signal), undefined);
  });
});
