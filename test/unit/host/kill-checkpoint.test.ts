import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { describe, test } from "node:test";
import { killGroup, markOf } from "../../../src/lib/linux/process-mark.js";
import { killCheckpoint } from "../../../src/shim/host/kill-checkpoint.js";
import { FakeProc } from "./fake-proc.js";

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
    [Symbol.dispose]: () => {
      if (child.pid !== undefined) killGroup(child.pid);
    },
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
  });

  test("leaves a process of a container alone that has these words, and goes on at one with too many", async () => {
    await using fake = await FakeProc.make();
    using tenant = standIn("/checkpoints/.dockershim-checkpoint-1-2-abc");
    await tenant.inGroup;
    const cmdline = (await readFile(`/proc/${tenant.pid}/cmdline`, "utf8")).split("\0");
    await fake.add(tenant.pid, { cmdline, mountNamespace: 2 });
    await fake.add(process.pid, { cmdline: ["x".repeat(5 * 1024 * 1024)] });
    await killCheckpoint(containerId, location, fake.proc);
    assert.notEqual(markOf(tenant.pid), undefined);
  });

  test("has nothing to do where the runtime has ended", () => killCheckpoint(containerId, location));
});
