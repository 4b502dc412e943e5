import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, test } from "node:test";
import { markOf } from "../../../src/lib/linux/process-mark.js";
import { killCheckpoint } from "../../../src/shim/host/kill-checkpoint.js";

const containerId = "c".repeat(64);
const location = "/checkpoints/web.tar";

/** Has the words of runc, as its own; it leads a group, in which a child is. */
function standIn(work: string, id = containerId) {
  const script = "sleep 1000 & echo $!; wait";
  const words = ["checkpoint", "--work-path", work, "--leave-running", id];
  const child = spawn("sh", ["-c", script, "runc", ...words], {
    detached: true,
    stdio: ["ignore", "pipe", "ignore"],
  });
  return {
    pid: child.pid ?? 0,
    ended: once(child, "exit"),
    inGroup: once(child.stdout, "data").then(([text]) => Number(String(text))),
    [Symbol.dispose]: () => child.pid !== undefined && child.exitCode === null && child.kill("SIGKILL"),
  };
}

describe("killCheckpoint()", () => {
  test("kills the runtime that checkpoints the container to that place, with its CRIU, and no other", async () => {
    const work = "/checkpoints/.dockershim-checkpoint-1-2-abc";
    using runc = standIn(work);
    using elsewhere = standIn("/other/.dockershim-checkpoint-1-2-abc");
    using another = standIn(work, "d".repeat(64));
    const [criu, ...others] = await Promise.all([runc, elsewhere, another].map(({ inGroup }) => inGroup));
    await killCheckpoint(containerId, location);
    assert.deepEqual((await runc.ended)[1], "SIGKILL");
    assert.equal(markOf(criu ?? 0), undefined);
    for (const pid of [elsewhere.pid, another.pid, ...others]) assert.notEqual(markOf(pid), undefined);
    for (const { pid } of [elsewhere, another]) process.kill(-pid, "SIGKILL");
  });

  test("has nothing to do where the runtime has ended", () => killCheckpoint(containerId, location));
});
