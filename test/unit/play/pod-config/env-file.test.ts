import assert from "node:assert/strict";
import { test } from "node:test";
import { runInNewContext } from "node:vm";
import { envFileValue } from "../../../../src/play/pod-config/env-file.js";

test("envFileValue() reads a value of very many lines, which a container may write, at once", () => {
  const value = "\n".repeat(1024 ** 2 - 10);
  const read = (): string => envFileValue(`K='${value}'`, "K");
  // It took minutes, in which nothing else could be done.
  assert.equal(runInNewContext("read()", { read }, { timeout: 20_000 }), value);
});
