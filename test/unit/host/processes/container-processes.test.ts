import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, test } from "node:test";
import {
  findProcessList,
  listProcesses,
  openFileLimits,
} from "../../../../src/shim/host/processes/container-processes.js";
import { ProcFiles } from "../../../../src/shim/host/processes/proc-files.js";
import { killProcessTree } from "../../../../src/shim/host/processes/process-tree.js";
import { idOf } from "../../../fakes/snapshots.js";
import { FakeProc } from "../fake-proc.js";

const id = idOf("3f");
const cgroup = `4:pids:/docker/${id}\n`;

/** `files` are those of the container's cgroup, which is `directory`, and of cgroups below it. */
async function setUp(files: readonly (readonly [name: string, text: string])[]) {
  const fake = await FakeProc.make();
  const root = join(fake.directory, "pids");
  const directory = join(root, "docker", id);
  for (const [name, text] of files) {
    await mkdir(dirname(join(directory, name)), { recursive: true });
    await writeFile(join(directory, name), text);
  }
  await fake.add("self", { files: { mountinfo: `30 20 0:2 / ${root} rw - cgroup cgroup rw,pids\n` } });
  return { fake, directory, [Symbol.asyncDispose]: () => fake[Symbol.asyncDispose]() };
}

describe("findProcessList()", () => {
  test("finds the cgroup of the container, also by a process in one below it", async () => {
    await using at = await setUp([]);
    await at.fake.add(100, { cgroup });
    await at.fake.add(101, { cgroup: `4:pids:/docker/${id}/inner\n` });
    for (const pid of [100, 101]) assert.equal(await findProcessList(id, pid, at.fake.proc), at.directory);
  });
});

describe("listProcesses()", () => {
  test("lists those of the cgroup and of all below it, but none of other PID namespaces", async () => {
    const files = { "cgroup.procs": "100\n102\n", "inner/cgroup.procs": "0\n101\n", "inner/none/other": "" };
    await using at = await setUp(Object.entries(files));
    assert.deepEqual(await listProcesses(at.directory), [100, 102, 101]);
  });

  test("lists none where there is no such file, and where there are too many cgroups", async () => {
    await using at = await setUp([
      ["cgroup.procs", ""],
      ...Array.from({ length: 300 }, (_, index) => [`c${index}/cgroup.procs`, ""] as const),
    ]);
    assert.equal(await listProcesses(at.directory), undefined);
    assert.equal(await listProcesses("/no/such/cgroup"), undefined);
  });
});

test("killProcessTree() looks at no process of the host where the container's are listed", async () => {
  await using at = await setUp([["cgroup.procs", "100\n101\n"]]);
  await at.fake.add(100, { cgroup });
  await at.fake.add(101, { cgroup, session: 101 });
  let scans = 0;
  const proc = new (class extends ProcFiles {
    override pids(): Promise<readonly number[]> {
      scans += 1;
      return super.pids();
    }
  })(at.fake.proc.root);
  const sent: string[] = [];
  const { signal } = new AbortController();
  const killing = killProcessTree(id, 100, signal, {
    proc,
    kill: (pid, name) => {
      sent.push(`${name} ${pid}`);
      // It is gone at once, as far as this process is looked at.
      if (name === "SIGKILL") void at.fake.end(pid);
    },
  });
  assert.equal(await killing, true);
  assert.deepEqual(sent, ["SIGSTOP 100", "SIGKILL 100"]);
  assert.equal(scans, 0);
});

describe("openFileLimits()", () => {
  const limits = (openFiles: string): Readonly<Record<string, string>> => ({
    limits: `Limit  Soft Limit  Hard Limit  Units\nMax open files  ${openFiles} files     \nMax locked memory  1 2 bytes\n`,
  });

  test("is undefined for a foreign process, for none, and for a text that it cannot read", async () => {
    await using fake = await FakeProc.make();
    await fake.add(50, { cgroup: "0::/user.slice", files: limits("1024 524288") });
    await fake.add(51, { cgroup, files: { limits: "Max open files" } });
    for (const pid of [0, 1, 49, 50, 51]) {
      assert.equal(await openFileLimits(fake.proc, { containerId: id, pid }), undefined, `${pid}`);
    }
  });
});
