import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdtemp, rename, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, test } from "node:test";
import { KnownPrograms, runProcess } from "../../../../src/network/libcni/plugin-process.js";
import { ShimError } from "../../../../src/lib/errors.js";

const reason = new ShimError("cancelled", "enough");
const isReason = (error: unknown): boolean => error === reason;

describe("an abort ends a plugin", { timeout: 120_000 }, () => {
  let directory: string;
  let plugin: string;
  let mark: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), "plugin-process-"));
    plugin = join(directory, "plugin");
    mark = join(directory, "ran");
    await writeFile(plugin, `#!/bin/sh\ncat > "${mark}"\nexec sleep 3600\n`, { mode: 0o755 });
  });
  afterEach(() => rm(directory, { recursive: true, force: true }));

  test("also one that comes while its file is looked at: it does not run", async () => {
    const controller = new AbortController();
    let isStarted = false;
    const running = runProcess(plugin, {
      ...{ environment: {}, input: "x", signal: controller.signal },
      beforeStart: () => (isStarted = true),
    });
    controller.abort(reason);
    await assert.rejects(running, isReason);
    assert.equal(isStarted, false);
    assert.equal(existsSync(mark), false);
  });

  test("also one that comes right before its start", async () => {
    const controller = new AbortController();
    const running = runProcess(plugin, {
      ...{ environment: {}, input: "x", signal: controller.signal },
      beforeStart: () => {
        controller.abort(reason);
      },
    });
    await assert.rejects(running, isReason);
  });
});

describe("a program is looked at before it runs", () => {
  let directory: string;
  let plugin: string;
  let looks: number;
  let now: number;
  let programs: KnownPrograms;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), "known-programs-"));
    plugin = join(directory, "plugin");
    await writeFile(plugin, "#!/bin/sh\n");
    looks = 0;
    now = (await stat(plugin)).ctimeMs + 60_000;
    const look = async (): Promise<void> => {
      looks += 1;
      await Promise.resolve();
    };
    programs = new KnownPrograms({ look, now: () => now });
  });
  afterEach(() => rm(directory, { recursive: true, force: true }));

  const requireTwice = async (): Promise<void> => {
    await programs.require(plugin);
    await programs.require(plugin);
  };

  test("once, while it does not change", async () => {
    await requireTwice();
    assert.equal(looks, 1);
  });

  test("again when it was written, also with as many bytes", async () => {
    await requireTwice();
    const { ctimeMs } = await stat(plugin);
    // The file system's clock has to tick.
    do await writeFile(plugin, "#?/bin/sh\n");
    while ((await stat(plugin)).ctimeMs === ctimeMs);
    await requireTwice();
    assert.equal(looks, 2);
  });

  test("again when another file was renamed to it", async () => {
    await requireTwice();
    const other = join(directory, "other");
    await writeFile(other, "#!/bin/sh -e\n");
    await rename(other, plugin);
    await requireTwice();
    assert.equal(looks, 2);
  });

  test("each time, until its last change is longer ago than a tick of the file system's clock", async () => {
    now -= 60_000 - 2_000;
    await requireTwice();
    assert.equal(looks, 2);
    now += 2_000;
    await requireTwice();
    assert.equal(looks, 3);
  });

  test("each time, when it is none", async () => {
    programs = new KnownPrograms();
    await writeFile(plugin, "text");
    for (let count = 0; count < 2; count += 1)
      await assert.rejects(programs.require(plugin), /neither a program/);
  });
});
