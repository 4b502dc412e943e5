import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { verifyExecutable } from "../../../src/main/verify.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

const content = Buffer.alloc(2_500_000, "an executable ");
const digest = createHash("sha256").update(content).digest("hex");
const whole = Buffer.concat([content, Buffer.from(`\ndockershim-sha256:${digest}\n`)]);
const changed = Buffer.from(whole);
changed[2_000_000] = 0;

test("an executable verifies its bytes by its last line", async () => {
  await using directory = await temporaryDirectory();
  const path = join(directory.path, "dockershim");
  await writeFile(path, whole);
  assert.equal(await verifyExecutable(path), digest);
});

for (const [name, bytes, message] of [
  ["with a changed byte", changed, /its bytes have changed, install it again/],
  ["that was cut off", whole.subarray(0, 1_000_000), /its end is missing, install it again/],
  ["that is empty", Buffer.alloc(0), /its end is missing/],
] as const) {
  test(`an executable ${name} is refused`, async () => {
    await using directory = await temporaryDirectory();
    const path = join(directory.path, "dockershim");
    await writeFile(path, bytes);
    await assert.rejects(verifyExecutable(path), message);
  });
}
