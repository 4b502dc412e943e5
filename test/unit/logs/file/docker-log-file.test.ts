import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { gzipSync } from "node:zlib";
import { CompressedLog } from "../../../../src/shim/logs/file/docker-log-file.js";
import { temporaryDirectory } from "../../lib/temporary-directory.js";
import { randomOf } from "../log-bench.js";

const random = randomOf(7);
const content = Buffer.from(Array.from({ length: 300_000 }, () => 97 + Math.floor(random() * 5)));

async function withLog(
  archive: Buffer,
  limitBytes: number,
  work: (log: CompressedLog) => Promise<void>,
): Promise<void> {
  await using directory = await temporaryDirectory();
  const path = join(directory.path, "x.gz");
  writeFileSync(path, archive);
  const log = await CompressedLog.open(path, limitBytes);
  try {
    await work(log);
  } finally {
    await log.close();
  }
}

async function readAll(log: CompressedLog): Promise<Buffer> {
  const buffer = Buffer.alloc(1024 * 1024);
  return buffer.subarray(0, await log.read(buffer, 0));
}

describe("CompressedLog", () => {
  test("reads the content at any offset, also backwards", async () => {
    await withLog(gzipSync(content), 1e6, async (log) => {
      for (const [offset, length] of [
        [0, 10],
        [5, 100_000],
        [90_000, 210_000],
        [100, 50],
        [299_999, 10],
        [300_000, 10],
        [400_000, 10],
      ] as const) {
        const buffer = Buffer.alloc(length);
        const bytes = await log.read(buffer, offset);
        assert.deepEqual(buffer.subarray(0, bytes), content.subarray(offset, offset + length));
      }
      assert.equal(log.damage, undefined);
    });
  });

  test("ends at the damage of an archive, at the same byte each time, with the reason", async () => {
    const whole = gzipSync(content);
    const flipped = Buffer.from(whole);
    flipped.fill(0xff, 60_000, 60_100);
    for (const archive of [whole.subarray(0, 50_000), flipped, Buffer.alloc(0), Buffer.from("no gzip")]) {
      const sizes = new Set<number>();
      for (let attempt = 0; attempt < 3; attempt += 1) {
        await withLog(archive, 1e6, async (log) => {
          const read = await readAll(log);
          assert.ok(archive.length < 1000 || read.length > 10_000);
          sizes.add(read.length);
          assert.equal(await log.read(Buffer.alloc(1), read.length), 0);
          assert.notEqual(log.damage, undefined);
        });
      }
      assert.equal(sizes.size, 1);
    }
  });

  test("stops to unpack at its limit, as damaged", async () => {
    await withLog(gzipSync(Buffer.alloc(200 * 1024 * 1024)), 1000, async (log) => {
      const buffer = Buffer.alloc(64 * 1024);
      let bytes = 0;
      for (let read = -1; read !== 0; bytes += read) read = await log.read(buffer, bytes);
      assert.ok(bytes < 16 * 1024 * 1024);
      assert.match(log.damage ?? "", /more than 1000 bytes/);
    });
  });
});
