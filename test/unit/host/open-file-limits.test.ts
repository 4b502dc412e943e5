import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { openFileLimits } from "../../../src/shim/host/open-file-limits.js";
import { idOf } from "../../fakes/snapshots.js";
import { FakeProc } from "./fake-proc.js";

const containerId = idOf("5a");
const cgroup = `0::/system.slice/docker-${containerId}.scope`;

function limits(openFiles: string): Readonly<Record<string, string>> {
  const head = "Limit                     Soft Limit           Hard Limit           Units     \n";
  return {
    limits: `${head}Max open files            ${openFiles}files     \nMax locked memory  1 2 bytes\n`,
  };
}

describe("openFileLimits()", () => {
  test("reads the limits of the container's process", async () => {
    await using fake = await FakeProc.make();
    await fake.add(50, { cgroup, files: limits("1024                 524288               ") });
    assert.deepEqual(await openFileLimits(fake.proc, { containerId, pid: 50 }), { soft: 1024, hard: 524288 });
  });

  test("reads unlimited as Infinity", async () => {
    await using fake = await FakeProc.make();
    await fake.add(50, { cgroup, files: limits("5                    unlimited            ") });
    assert.deepEqual(await openFileLimits(fake.proc, { containerId, pid: 50 }), { soft: 5, hard: Infinity });
  });

  test("is undefined for a process of somebody else, for none, and for a text that it cannot read", async () => {
    await using fake = await FakeProc.make();
    await fake.add(50, {
      cgroup: "0::/user.slice",
      files: limits("1024                 524288               "),
    });
    await fake.add(51, { cgroup, files: { limits: "Max open files" } });
    for (const pid of [0, 1, 49, 50, 51]) {
      assert.equal(await openFileLimits(fake.proc, { containerId, pid }), undefined, String(pid));
    }
  });
});
