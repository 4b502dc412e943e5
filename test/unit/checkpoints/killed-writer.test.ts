import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { decodeCheckpoint } from "../../../checkpoints/checkpoint.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

/** Prints the round of each put() that has returned. */
const writer = `
import { CheckpointDirectory } from "./checkpoints/directory-store.js";
import { silentLogger } from "./src/lib/log.js";
const [directory] = process.argv.slice(1);
const store = await CheckpointDirectory.open({
  directory, quarantineDirectory: directory + ".quarantine", log: silentLogger(),
});
for (let round = 0; ; round += 1) {
  await Promise.all(["a", "b", "c"].map((id) =>
    store.put(id, { version: "v1", name: "x".repeat(round * 100), namespace: String(round), data: {} })));
  process.stdout.write(round + "\\n");
}`;

test("SIGKILL during put() leaves whole checkpoints, none older than the last that was acknowledged", async () => {
  await using directory = await temporaryDirectory();
  const path = join(directory.path, "sandbox");
  const cwd = new URL("../../../", import.meta.url);
  const child = spawn(process.execPath, ["--import", "tsx", "--input-type=module", "--eval", writer, path], {
    cwd,
    stdio: ["ignore", "pipe", "inherit"],
  });
  try {
    let acknowledged = -1;
    for await (const line of createInterface(child.stdout)) {
      acknowledged = Number(line);
      if (acknowledged === 20) child.kill("SIGKILL");
    }
    assert.ok(acknowledged >= 20, "the writer ended by itself");
    const names = (await readdir(path)).filter((name) => !name.startsWith("."));
    assert.deepEqual(names.sort(), ["a", "b", "c"]);
    for (const name of names) {
      const result = decodeCheckpoint(await readFile(join(path, name)));
      assert.ok(result.kind === "checkpoint", `${name} is corrupt`);
      assert.ok(Number(result.checkpoint.namespace) >= acknowledged, `${name} was taken back`);
    }
  } finally {
    child.kill("SIGKILL");
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  }
});
