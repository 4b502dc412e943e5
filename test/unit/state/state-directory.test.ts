import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { chmod, mkdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { checkpointsOf, inDockerRoot } from "../../../src/domain/docker-root.js";
import { claimStateDirectory, openStateDirectory } from "../../../src/shim/state/state-directory.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

test("openStateDirectory() makes the directory for its user alone, and leaves the mode of an existing one", async () => {
  await using at = await temporaryDirectory();
  for (const [name, mode, expected] of [
    ["made", undefined, 0o700],
    ["empty", 0o711, 0o711],
    ["with checkpoints", 0o755, 0o755],
  ] as const) {
    const root = join(at.path, name);
    if (mode !== undefined) {
      await mkdir(root);
      await chmod(root, mode);
    }
    if (name === "with checkpoints") await mkdir(join(root, "sandbox"));
    await openStateDirectory(root);
    assert.equal((await stat(root)).mode & 0o7777, expected, name);
  }
});

test("checkpoints are in the state directory, and in Docker's where cri-dockerd has them", () => {
  assert.equal(inDockerRoot("/var/lib/dockershim"), undefined);
  assert.equal(checkpointsOf("/var/lib/dockershim"), "/var/lib/dockershim/sandbox");
  assert.equal(checkpointsOf(inDockerRoot("/var/lib/docker") ?? ""), "/var/lib/docker/sandbox");
});

test("claimStateDirectory() removes what a killed writer left, only ours, and only once it has the claim", async () => {
  await using at = await temporaryDirectory();
  const temporary = join(at.path, ".dockershim-0123456789abcdef");
  const others = [".dockershim-notes", ".setup.json.123", "engine-id"];
  const claim = await claimStateDirectory(at.path);
  for (const name of others) await writeFile(join(at.path, name), "x");
  await writeFile(temporary, "engi");
  await assert.rejects(claimStateDirectory(at.path), /another dockershim runs/);
  assert.ok(existsSync(temporary));
  await claim.release();
  const next = await claimStateDirectory(at.path);
  assert.equal(existsSync(temporary), false);
  for (const name of others) assert.ok(existsSync(join(at.path, name)), name);
  await next.release();
});
