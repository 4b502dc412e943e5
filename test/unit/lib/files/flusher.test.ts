import assert from "node:assert/strict";
import { rename, rm, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { describe, test } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { isKind, ShimError } from "../../../../src/lib/errors.js";
import { Flusher } from "../../../../src/lib/files/flusher.js";
import { recordingLog } from "../../../fakes/recording-log.js";
import { temporaryDirectory } from "../temporary-directory.js";
import { HeldFlushes } from "./held-flushes.js";
import { pluck } from "../../../support/pluck.js";

/** Long enough that only a request begins the flush of a replaced file. */
const never = 3_600_000;
const live = new AbortController().signal;

async function setUp(delayMs = never) {
  const temporary = await temporaryDirectory();
  const log = recordingLog();
  const flushes = await HeldFlushes.start();
  const flusher = new Flusher(log, delayMs);
  const place = (name: string): string => join(temporary.path, name);
  return {
    flusher,
    flushes,
    log,
    place,
    directory: basename(temporary.path),
    write: async (name: string, isNew: boolean) => {
      await writeFile(place(`.${name}`), "");
      await rename(place(`.${name}`), place(name));
      flusher.written(place(name), isNew);
    },
    flushed: (name: string, signal = live) => flusher.flushed(place(name), signal),
    async [Symbol.asyncDispose]() {
      flushes[Symbol.dispose]();
      await flusher.close();
      await temporary[Symbol.asyncDispose]();
    },
  };
}

describe("Flusher", () => {
  test("flushes a new file and then its directory, without being asked", async () => {
    await using at = await setUp();
    await at.write("a", true);
    await at.flushed("a");
    assert.deepEqual(at.flushes.done, ["a", at.directory]);
  });

  test("what comes during a flush is flushed together afterwards, with one flush of the directory", async () => {
    await using at = await setUp();
    at.flushes.hold();
    await at.write("a", true);
    await at.flushes.begun(1);
    for (const name of ["b", "c", "d"]) await at.write(name, true);
    at.flushes.release();
    await Promise.all(["a", "b", "c", "d"].map((name) => at.flushed(name)));
    assert.deepEqual(at.flushes.done, ["a", at.directory, "b", "c", "d", at.directory]);
  });

  test("directories do not wait for each other", async () => {
    await using at = await setUp();
    await using other = await temporaryDirectory();
    const path = join(other.path, "b");
    await writeFile(path, "");
    at.flushes.hold("a");
    await at.write("a", true);
    at.flusher.written(path, true);
    await at.flusher.flushed(path, live);
    assert.deepEqual(at.flushes.done, ["b", basename(other.path)]);
  });

  test("a replaced file waits for the next flush, or for one who asks, and its directory is not flushed", async () => {
    await using at = await setUp();
    await at.write("a", false);
    await at.write("a", false);
    await nextTurn();
    assert.deepEqual(at.flushes.done, []);
    await at.flushed("a");
    assert.deepEqual(at.flushes.done, ["a"]);
    await at.write("b", false);
    await at.write("c", true);
    await at.flushed("c");
    assert.deepEqual(at.flushes.done.slice(1), ["b", "c", at.directory]);
  });

  test("a replaced file is flushed after a while without being asked", async () => {
    await using at = await setUp(1);
    await at.write("a", false);
    await at.flushes.begun(1);
  });

  test("content that is written during the flush of the one before is flushed, too", async () => {
    await using at = await setUp();
    at.flushes.hold();
    await at.write("a", true);
    await at.flushes.begun(1);
    await at.write("a", false);
    const last = at.flushed("a");
    at.flushes.release();
    await last;
    assert.deepEqual(at.flushes.done, ["a", at.directory, "a"]);
  });

  test("a file that begins in the moment in which a flush ends is flushed", async () => {
    await using at = await setUp();
    await writeFile(at.place("b"), "");
    await at.write("a", true);
    const follower = at.flushed("a").then(() => {
      at.flusher.written(at.place("b"), true);
    });
    await follower;
    await at.flushed("b");
    assert.deepEqual(at.flushes.done, ["a", at.directory, "b", at.directory]);
  });

  test("a removed file needs no flush, and who waits for it ends", async () => {
    await using at = await setUp();
    at.flushes.hold();
    await at.write("a", true);
    await at.flushes.begun(1);
    await at.write("b", false);
    const waits = at.flushed("b");
    await rm(at.place("b"));
    at.flusher.removed(at.place("b"));
    await waits;
    await at.write("c", true);
    // Without a word to the flusher.
    await rm(at.place("c"));
    at.flushes.release();
    await at.flushed("c");
    assert.deepEqual(at.flushes.done, ["a", at.directory, at.directory]);
  });

  test("who waits gets the error, also when asking late, until the file is written again", async () => {
    await using at = await setUp();
    at.flushes.failing = "ENOSPC";
    await at.write("a", true);
    const refused = (error: unknown) =>
      isKind(error, "unavailable") && error.fields["path"] === at.place("a");
    await assert.rejects(at.flushed("a"), refused);
    at.flushes.failing = undefined;
    await assert.rejects(at.flushed("a"), refused);
    await at.write("a", false);
    await at.flushed("a");
    // Its name was not flushed before.
    assert.deepEqual(at.flushes.done.slice(-2), ["a", at.directory]);
  });

  test("a directory that cannot be flushed fails new names alone", async () => {
    await using at = await setUp();
    at.flushes.hold();
    await at.write("first", true);
    await at.flushes.begun(1);
    await at.write("replaced", false);
    await at.write("new", true);
    at.flushes.failing = "EIO";
    at.flushes.failingName = at.directory;
    at.flushes.release();
    await assert.rejects(at.flushed("new"), { kind: "unavailable" });
    await at.flushed("replaced");
  });

  test("a failing disk is logged once, and again after it has worked", async () => {
    await using at = await setUp();
    at.flushes.failing = "EIO";
    for (const name of ["a", "b", "c"]) {
      await at.write(name, true);
      await at.flushed(name).catch(() => undefined);
    }
    assert.deepEqual(pluck(at.log.lines, "level"), ["error"]);
    assert.equal(at.log.lines[0]?.fields["path"], at.place("a"));
    at.flushes.failing = undefined;
    await at.write("d", true);
    await at.flushed("d");
    at.flushes.failing = "EIO";
    await at.write("e", true);
    await at.flushed("e").catch(() => undefined);
    assert.equal(at.log.lines.length, 2);
  });

  test("a wait ends with its signal, while the flush goes on", async () => {
    await using at = await setUp();
    const caller = new AbortController();
    at.flushes.hold();
    await at.write("a", true);
    const waits = at.flushed("a", caller.signal);
    caller.abort(new ShimError("timeout", "too late"));
    await assert.rejects(waits, { kind: "timeout" });
    at.flushes.release();
    await at.flushed("a");
  });

  test("close() flushes what waits", async () => {
    await using at = await setUp();
    await at.write("a", false);
    await at.flusher.close();
    assert.deepEqual(at.flushes.done, ["a"]);
  });
});
