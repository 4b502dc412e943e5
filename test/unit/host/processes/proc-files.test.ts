import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { isCgroupOf, ProcFiles } from "../../../../src/shim/host/processes/proc-files.js";
import { idOf } from "../../../fakes/snapshots.js";
import { FakeProc } from "../fake-proc.js";
import { pluck } from "../../../support/pluck.js";

describe("ProcFiles", () => {
  test("answers undefined of a process that is gone, and leaves it out of lists", async () => {
    await using fake = await FakeProc.make();
    await fake.add(10, { comm: "ten" });
    await fake.add(11, { comm: "eleven" });
    await fake.end(10);
    assert.equal(await fake.proc.stat(10), undefined);
    assert.equal(await fake.proc.command(10), undefined);
    assert.equal(await fake.proc.link(10, "ns/pid"), undefined);
    assert.deepEqual(await fake.proc.openFiles(10, 9), []);
    assert.deepEqual(pluck(await fake.proc.processes(), "pid"), [11]);
  });

  test("openFiles() looks at so many of them only", async () => {
    await using fake = await FakeProc.make();
    const sockets = Object.fromEntries(Array.from({ length: 9 }, (_, index) => [index + 1, "/x"]));
    await fake.add(10, { sockets });
    assert.equal((await fake.proc.openFiles(10, 100)).length, 9);
    assert.equal((await fake.proc.openFiles(10, 4)).length, 4);
  });

  test("fails when /proc itself cannot be read: no processes is another answer", async () => {
    await assert.rejects(new ProcFiles("/nowhere").processes(), { code: "ENOENT" });
  });
});

describe("isCgroupOf()", () => {
  const id = idOf("3f");
  const cases: readonly (readonly [what: string, text: string | undefined, id: string, expected: boolean])[] =
    [
      ["cgroup v1", `8:pids:/docker/${id}\n0::/`, id, true],
      ["a systemd scope", `0::/kubepods.slice/docker-${id}.scope\n`, id, true],
      ["a cgroup below", `0::/docker/${id}/init\n`, id, true],
      ["another container", `0::/docker/${idOf("4f")}\n`, id, false],
      ["the host", "0::/\n", id, false],
      ["a process that is gone", undefined, id, false],
      ["an empty id, which is part of every text", `0::/docker/${id}\n`, "", false],
      ["a short id", `0::/docker/${id}\n`, id.slice(0, 12), false],
    ];
  for (const [what, text, containerId, expected] of cases) {
    test(`answers ${expected} for ${what}`, () => {
      assert.equal(isCgroupOf(containerId, text), expected);
    });
  }
});
