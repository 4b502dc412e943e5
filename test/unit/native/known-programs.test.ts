import assert from "node:assert/strict";
import { mkdtemp, rename, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, test } from "node:test";
import { KnownPrograms } from "../../../src/shim/native/known-programs.js";

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
    const look = (): void => {
      looks += 1;
    };
    programs = new KnownPrograms({ look, now: () => now });
  });
  afterEach(() => rm(directory, { recursive: true, force: true }));

  const requireTwice = (): void => {
    programs.require(plugin);
    programs.require(plugin);
  };

  test("once, while it does not change", () => {
    requireTwice();
    assert.equal(looks, 1);
  });

  test("again when it was written, also with as many bytes", async () => {
    requireTwice();
    const { ctimeMs } = await stat(plugin);
    // The file system's clock has to tick.
    do await writeFile(plugin, "#?/bin/sh\n");
    while ((await stat(plugin)).ctimeMs === ctimeMs);
    requireTwice();
    assert.equal(looks, 2);
  });

  test("again when another file was renamed to it", async () => {
    requireTwice();
    const other = join(directory, "other");
    await writeFile(other, "#!/bin/sh -e\n");
    await rename(other, plugin);
    requireTwice();
    assert.equal(looks, 2);
  });

  test("each time, until its last change is longer ago than a tick of the file system's clock", () => {
    now -= 60_000 - 2_000;
    requireTwice();
    assert.equal(looks, 2);
    now += 2_000;
    requireTwice();
    assert.equal(looks, 3);
  });

  test("each time, when it is none", async () => {
    programs = new KnownPrograms();
    await writeFile(plugin, "text");
    for (let count = 0; count < 2; count += 1)
      assert.throws(() => programs.require(plugin), { kind: "unavailable", message: /neither a program/ });
  });
});
