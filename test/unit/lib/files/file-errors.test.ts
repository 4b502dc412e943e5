import assert from "node:assert/strict";
import { test } from "node:test";
import { ShimError } from "../../../../src/lib/errors.js";
import { fileError } from "../../../../src/lib/files/file-errors.js";

function systemError(code: string, message: string): Error {
  return Object.assign(new Error(`${code}: ${message}`), { code });
}

const cases = [
  ["ENOSPC", "no space left on device, write", "unavailable", "no space left on device"],
  ["EIO", "i/o error, fsync", "unavailable", "i/o error"],
  ["EROFS", "read-only file system, open '/x'", "unavailable", "read-only file system"],
  ["EACCES", "permission denied, open '/x'", "internal", "permission denied"],
] as const;

for (const [code, message, kind, reason] of cases) {
  test(`fileError() makes ${code} ${kind} and says it once`, () => {
    const cause = systemError(code, message);
    const error = fileError("write", "/state/x", cause);
    assert.equal(error.kind, kind);
    assert.equal(error.message, `write "/state/x": ${reason}`);
    assert.deepEqual(error.fields, { path: "/state/x", errno: code });
    assert.equal(error.cause, cause);
  });
}

test("fileError() passes a ShimError on as it is", () => {
  const error = new ShimError("timeout", "too slow");
  assert.equal(fileError("write", "/x", error), error);
});
