import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, test } from "node:test";
import { runProcess } from "../../../../src/network/libcni/plugin-process.js";
import { ShimError } from "../../../../src/lib/errors.js";

const reason = new ShimError("cancelled", "enough");
const isReason = (error: unknown): boolean => error === reason;

describe("an abort ends a plugin", { timeout: 120_000 }, () => {
  let directory: string;
  let plugin: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), "plugin-process-"));
    plugin = join(directory, "plugin");
    await writeFile(plugin, "#!/bin/sh\nexec sleep 3600\n", { mode: 0o755 });
  });
  afterEach(() => rm(directory, { recursive: true, force: true }));

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
