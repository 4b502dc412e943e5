import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { kernelFileLines, readKernelFile } from "../../../../src/lib/linux/kernel-file.js";
import { temporaryDirectory } from "../temporary-directory.js";

describe("readKernelFile()", () => {
  for (const bytes of [0, 1, 2047, 2048, 2049, 700_000]) {
    test(`reads all of ${bytes} bytes`, async () => {
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

  test("fails with the system's error", async () => {
    await using directory = await temporaryDirectory();
    mkdirSync(join(directory.path, "directory"));
    await assert.rejects(readKernelFile(join(directory.path, "directory")), { code: "EISDIR" });
    await assert.rejects(readKernelFile(join(directory.path, "none")), { code: "ENOENT" });
  });
});

test("readKernelFile() of a file that grows without end fails and names its limit", async () => {
  await assert.rejects(readKernelFile("/dev/zero"), {
    kind: "exhausted",
    message: 'read "/dev/zero": longer than the limit of 4194304 bytes',
  });
  await using directory = await temporaryDirectory();
  const path = join(directory.path, "file");
  writeFileSync(path, "12345");
  assert.equal(await readKernelFile(path, 5), "12345");
  await assert.rejects(readKernelFile(path, 4), { kind: "exhausted" });
});

describe("kernelFileLines()", () => {
  const all = async (text: string, limitBytes?: number): Promise<readonly string[]> => {
    await using directory = await temporaryDirectory();
    const path = join(directory.path, "file");
    writeFileSync(path, text);
    const found: string[] = [];
    for await (const lines of kernelFileLines(path, limitBytes)) found.push(...lines);
    return found;
  };
  const long = "x".repeat(70 * 1024);
  const many = Array.from({ length: 40_000 }, (_, index) => `line ${index}`);
  const cases: readonly (readonly [what: string, text: string, expected: readonly string[]])[] = [
    ["no text", "", []],
    ["lines with an end", "a\nb\n", ["a", "b"]],
    ["a last line without one", "a\n\nb", ["a", "", "b"]],
    ["lines that reads cut in two", many.join("\n"), many],
    ["the neighbours of a line that is too long", `a\n${long}\nb\n`, ["a", "b"]],
    ["the neighbours of one that no buffer holds", `a\n${long.repeat(9)}\nb\n${long.repeat(3)}`, ["a", "b"]],
  ];
  for (const [what, text, expected] of cases) {
    test(`reads ${what}`, async () => {
      assert.deepEqual(await all(text), expected);
    });
  }

  test("fails after its limit", async () => {
    assert.deepEqual(await all("a\nb\n", 4), ["a", "b"]);
    await assert.rejects(all("a\nb\n", 3), { kind: "exhausted", message: /limit of 3 bytes/ });
  });

  test("keeps no more of a line without an end than its limit", async () => {
    const none = async (): Promise<void> => {
      for await (const lines of kernelFileLines("/dev/zero", 512 * 1024 * 1024)) assert.deepEqual(lines, []);
    };
    const before = process.memoryUsage().arrayBuffers;
    await assert.rejects(none(), { kind: "exhausted" });
    assert.ok(process.memoryUsage().arrayBuffers - before < 8 * 1024 * 1024);
  });
});
