import assert from "node:assert/strict";
import { EventEmitter } from "node:events";
import { mkdir, rename } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { DirectoryWatch, type WatchDirectory } from "../../../../src/lib/files/directory-watch.js";
import { temporaryDirectory } from "../temporary-directory.js";

/** A kernel whose events the test makes; `watches.at(-1)` is the newest watch. */
function fakeKernel() {
  const watches: { notify: (type: string, name: string | null) => void; events: EventEmitter }[] = [];
  let open = 0;
  const watchDirectory: WatchDirectory = (_directory, _options, notify) => {
    const events = Object.assign(new EventEmitter(), { close: () => (open -= 1) });
    open += 1;
    watches.push({ notify, events });
    return events;
  };
  return { watchDirectory, watches, open: () => open };
}

describe("DirectoryWatch", () => {
  test("reports the kind of change, of files with the prefix and of unknown files", () => {
    const kernel = fakeKernel();
    const seen: string[] = [];
    const onChange = (change: string): void => void seen.push(change);
    const watch = new DirectoryWatch("/d", { ...kernel, prefix: "a.log", onChange });
    watch.start();
    watch.start();
    const notify = kernel.watches[0]?.notify;
    notify?.("change", "a.log");
    notify?.("rename", "a.log.1");
    notify?.("change", "b.log");
    notify?.("change", null);
    assert.deepEqual(seen, ["change", "rename", "rename"]);
    assert.equal(kernel.watches.length, 1);
    watch.stop();
    assert.equal(kernel.open(), 0);
  });

  for (const failure of ["at its start", "later"] as const) {
    test(`polls when the watch fails ${failure}, until stop()`, (context) => {
      context.mock.timers.enable({ apis: ["setInterval"] });
      const kernel = fakeKernel();
      const refuse: WatchDirectory = () => {
        throw new Error("ENOSPC");
      };
      let changes = 0;
      const watch = new DirectoryWatch("/d", {
        watchDirectory: failure === "later" ? kernel.watchDirectory : refuse,
        pollMs: 1000,
        onChange: () => (changes += 1),
      });
      watch.start();
      kernel.watches[0]?.events.emit("error", new Error("EMFILE"));
      const before = changes;
      context.mock.timers.tick(2000);
      assert.equal(changes - before, 2);
      watch.stop();
      context.mock.timers.tick(2000);
      assert.equal(changes - before, 2);
      assert.equal(kernel.open(), 0);
    });
  }

  test("renew() watches a directory that was made or replaced, and again after an error", async () => {
    await using at = await temporaryDirectory();
    const directory = join(at.path, "d");
    const kernel = fakeKernel();
    const watch = new DirectoryWatch(directory, { ...kernel, onChange: () => undefined });
    const watches = async (): Promise<number> => {
      await watch.renew();
      return kernel.watches.length;
    };
    assert.equal(await watches(), 0);
    await mkdir(directory);
    assert.deepEqual([await watches(), await watches()], [1, 1]);
    await rename(directory, `${directory}.old`);
    await mkdir(directory);
    assert.equal(await watches(), 2);
    kernel.watches[1]?.events.emit("error", new Error("gone"));
    assert.equal(await watches(), 3);
    watch.stop();
    assert.equal(kernel.open(), 0);
  });
});
