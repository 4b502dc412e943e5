import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { describe, test } from "node:test";
import { deadline, formatDuration, linkAbort, orAbort, sleep, withDeadline } from "../../../src/lib/abort.js";
import { isKind, ShimError } from "../../../src/lib/errors.js";

const hang = (signal: AbortSignal): Promise<never> => orAbort(new Promise<never>(() => undefined), signal);

/** A wait as Node's own functions do it: its error is an AbortError, not the reason. */
const nodeLikeHang = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => {
    signal.addEventListener("abort", () => {
      reject(new DOMException("The operation was aborted", "AbortError"));
    });
  });

describe("withDeadline()", () => {
  for (const [name, work] of Object.entries({ "its signal's reason": hang, "an AbortError": nodeLikeHang })) {
    test(`fails as timeout when the work ends with ${name}`, async () => {
      await assert.rejects(withDeadline(undefined, 1, "act", work), (error) => {
        assert.ok(isKind(error, "timeout"));
        assert.equal(error.message, "act: not finished after 1ms");
        return true;
      });
    });

    test(`fails with the parent's reason when the work ends with ${name}`, async () => {
      const parent = new AbortController();
      const running = withDeadline(parent.signal, 60_000, "act", work);
      parent.abort(new ShimError("cancelled", "caller left"));
      await assert.rejects(running, { kind: "cancelled", message: "caller left" });
    });
  }

  test("does not begin the work when the parent has aborted before", async () => {
    let began = false;
    const work = (): Promise<void> => {
      began = true;
      return Promise.resolve();
    };
    const parent = AbortSignal.abort(new ShimError("cancelled", "gone"));
    await assert.rejects(withDeadline(parent, 60_000, "act", work), /gone/);
    assert.equal(began, false);
  });
});

describe("orAbort()", () => {
  test("gives the result, or the reason of the abort if that comes first", async () => {
    const controller = new AbortController();
    assert.equal(await orAbort(Promise.resolve("r"), controller.signal), "r");
    const waiting = orAbort(new Promise(() => undefined), controller.signal);
    controller.abort(new ShimError("cancelled", "left"));
    await assert.rejects(waiting, { kind: "cancelled" });
    await assert.rejects(orAbort(Promise.resolve("r"), controller.signal), /left/);
  });
});

test("sleep() throws the reason of its signal", async () => {
  const controller = new AbortController();
  const sleeping = sleep(60_000, controller.signal);
  controller.abort(new ShimError("cancelled", "stop"));
  await assert.rejects(sleeping, { kind: "cancelled", message: "stop" });
  await sleep(0);
});

test("deadline() aborts with a timeout that names the action", async () => {
  // A deadline keeps no process alive; the sleep does.
  const signal = deadline(1, "wait for it");
  await assert.rejects(sleep(60_000, signal), /wait for it: not finished after 1ms/);
});

test("formatDuration() writes durations as Go does", () => {
  const shown = [20, 999, 1000, 1500, 60_000, 90_000, 3_600_000].map(formatDuration);
  assert.deepEqual(shown, ["20ms", "999ms", "1s", "1.5s", "1m", "1m30s", "60m"]);
});

describe("linkAbort()", () => {
  test("tells of an abort once, at once of one before, and nothing once it is disposed of", () => {
    const told: string[] = [];
    const controller = new AbortController();
    using _ = linkAbort(controller.signal, () => told.push("linked"));
    linkAbort(controller.signal, () => told.push("disposed"))[Symbol.dispose]();
    linkAbort(undefined, () => told.push("without a signal"))[Symbol.dispose]();
    assert.equal(told.length, 0);
    controller.abort();
    controller.abort();
    using __ = linkAbort(AbortSignal.abort(), () => told.push("before"));
    assert.deepEqual(told, ["linked", "before"]);
  });

  test("tells no link that another one has disposed of, and the others in spite of an error", async () => {
    const told: string[] = [];
    const controller = new AbortController();
    const thrown = new Error("of a link");
    linkAbort(controller.signal, () => {
      told.push("first");
      second[Symbol.dispose]();
      throw thrown;
    });
    const second = linkAbort(controller.signal, () => told.push("second"));
    linkAbort(controller.signal, () => told.push("third"));
    const uncaught = new Promise((resolve) => {
      const others = process.listeners("uncaughtException");
      process.removeAllListeners("uncaughtException");
      process.once("uncaughtException", (error) => {
        for (const other of others) process.on("uncaughtException", other);
        resolve(error);
      });
    });
    controller.abort();
    assert.deepEqual(told, ["first", "third"]);
    assert.equal(await uncaught, thrown);
  });

  test("leaves no listener behind its last link, for which Node.js 20 would keep the signal in memory", () => {
    const signal = AbortSignal.any([new AbortController().signal]);
    const counts = [1, 2].map(() => {
      const links = [1, 2].map(() => linkAbort(signal, () => undefined));
      return [...links, undefined].map((link) => {
        const { length } = getEventListeners(signal, "abort");
        link?.[Symbol.dispose]();
        return length;
      });
    });
    assert.deepEqual(counts, [
      [1, 1, 0],
      [1, 1, 0],
    ]);
  });

  test("lets many listen to one signal without a warning of a leak", async () => {
    const warnings: Error[] = [];
    const onWarning = (warning: Error): void => void warnings.push(warning);
    process.on("warning", onWarning);
    const { signal } = new AbortController();
    const links = Array.from({ length: 20 }, () => linkAbort(signal, () => undefined));
    // As the timers and streams of Node.js do.
    for (let count = 0; count < 20; count++) signal.addEventListener("abort", () => undefined);
    await new Promise((resolve) => setImmediate(resolve));
    process.off("warning", onWarning);
    for (const link of links) link[Symbol.dispose]();
    assert.deepEqual(warnings, []);
  });
});
