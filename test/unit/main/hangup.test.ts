import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { temporaryDirectory } from "../lib/temporary-directory.js";

test("a client of a CRI server ends when its terminal is closed", async () => {
  await using at = await temporaryDirectory();
  // It never answers.
  const server = createServer((socket) => socket.on("error", () => undefined).resume());
  const path = join(at.path, "cri.sock");
  server.listen(path);
  const words = ["pod", "ps", `--endpoint=unix://${path}`];
  const child = spawn(process.execPath, ["--import", "tsx", "src/main/main.ts", ...words]);
  const errors = text(child.stderr);
  await once(server, "connection");
  child.kill("SIGHUP");
  const limit = { signal: AbortSignal.timeout(10_000) };
  try {
    assert.deepEqual(await once(child, "exit", limit), [null, "SIGHUP"]);
    assert.equal(await errors, "");
  } finally {
    child.kill("SIGKILL");
    server.close();
  }
});
