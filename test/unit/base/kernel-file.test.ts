import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { readKernelFile } from "../../../src/shim/base/kernel-file.js";
import { temporaryDirectory } from "./temporary-directory.js";

describe("readKernelFile()", () => {
  for (const bytes of [0, 1, 2047, 2048, 2049, 700_000]) {
    test(`reads all of ${String(bytes)} bytes`, async () => {
      await using directory = await temporaryDirectory();
      const path = join(directory.path, "file");
      const text = "äbc".repeat(bytes).slice(0, bytes);
      writeFileSync(path, text);
      assert.equal(await readKernelFile(path), text);
    });
  }

  test("reads files whose size is said to be 0", async () => {
    assert.equal(await readKernelFile("/proc/self/limits"), await readFile("/proc/self/limits", "utf8"));
  });

  test("takes no large buffer for a small one", async () => {
    await readKernelFile("/proc/self/limits");
    const before = process.memoryUsage().arrayBuffers;
    for (let count = 0; count < 100; count += 1) await readKernelFile("/proc/self/limits");
    assert.ok(process.memoryUsage().arrayBuffers - before < 100 * 16 * 1024);
  });

  test("fails with the system's error", async () => {
    await using directory = await temporaryDirectory();
    mkdirSync(join(directory.path, "directory"));
    await assert.rejects(readKernelFile(join(directory.path, "directory")), { code: "EISDIR" });
    await assert.rejects(readKernelFile(join(directory.path, "none")), { code: "ENOENT" });
  });
});
