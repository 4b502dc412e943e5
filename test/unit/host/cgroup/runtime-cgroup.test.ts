import assert from "node:assert/strict";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, test } from "node:test";
import { moveIntoCgroup } from "../../../../src/shim/host/cgroup/runtime-cgroup.js";
import { FakeProc, type FakeProcess } from "../fake-proc.js";

type Mount = readonly [name: string, type: "cgroup" | "cgroup2", options: string];

const v1: readonly Mount[] = [
  ["cpu,cpuacct", "cgroup", "rw,cpu,cpuacct"],
  ["cpuset", "cgroup", "rw,cpuset"],
  ["memory", "cgroup", "rw,memory"],
  ["systemd", "cgroup", "rw,name=systemd"],
  ["unified", "cgroup2", "rw"],
];
const v2: readonly Mount[] = [["all", "cgroup2", "rw"]];
const inService = "5:cpuset:/\n4:memory:/system\n3:cpu,cpuacct:/system\n1:name=systemd:/system\n0::/system\n";
const oneGigabyte = 1024 * 1024;

/** A host with the process 50, and cgroup files that exist, as the kernel would make them. */
async function setUp(
  mounts: readonly Mount[],
  files: Readonly<Record<string, string>>,
  { cgroup = inService, totalKibibytes = oneGigabyte }: FakeProcess & { totalKibibytes?: number } = {},
): Promise<FakeProc> {
  const fake = await FakeProc.make();
  const lines = mounts.map(
    ([name, type, options]) => `30 20 0:2 / ${join(fake.directory, name)} rw - ${type} ${type} ${options}\n`,
  );
  await fake.add("self", { files: { mountinfo: lines.join("") } });
  await fake.add(50, { cgroup });
  await writeFile(join(fake.proc.root, "meminfo"), `MemTotal:  ${totalKibibytes} kB\nMemFree: 1 kB\n`);
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(fake.directory, name)), { recursive: true });
    await writeFile(join(fake.directory, name), text);
  }
  return fake;
}

const read = (fake: FakeProc, name: string): Promise<string> => readFile(join(fake.directory, name), "utf8");

const v1Files = {
  "cpu,cpuacct/engine/cgroup.procs": "",
  "cpuset/cpuset.cpus": "0-3\n",
  "cpuset/cpuset.mems": "0\n",
  "cpuset/engine/cpuset.cpus": "\n",
  "cpuset/engine/cpuset.mems": "\n",
  "cpuset/engine/cgroup.procs": "",
  "memory/engine/memory.limit_in_bytes": "9223372036854771712",
  "memory/engine/memory.memsw.limit_in_bytes": "4",
  "memory/engine/cgroup.procs": "",
  "systemd/engine/cgroup.procs": "",
  "unified/engine/cgroup.procs": "",
};

describe("moveIntoCgroup() with cgroup v1", () => {
  test("moves into every hierarchy with controllers and no other, and limits memory but not swap", async () => {
    await using fake = await setUp(v1, v1Files);
    assert.equal(await moveIntoCgroup(fake.proc, 50, "/engine"), true);
    for (const name of ["cpu,cpuacct", "cpuset", "memory"]) {
      assert.equal(await read(fake, `${name}/engine/cgroup.procs`), "50", name);
    }
    const limit = Math.floor(oneGigabyte * 1024 * 0.7);
    assert.match(await read(fake, "memory/engine/memory.limit_in_bytes"), new RegExp(`^${limit}`));
    assert.equal(await read(fake, "memory/engine/memory.memsw.limit_in_bytes"), "-1");
    for (const name of ["systemd", "unified"]) {
      assert.equal(await read(fake, `${name}/engine/cgroup.procs`), "", name);
    }
    // A cpuset without CPUs and memory nodes takes no process: it gets those of its parent.
    assert.equal(await read(fake, "cpuset/engine/cpuset.cpus"), "0-3");
    assert.equal(await read(fake, "cpuset/engine/cpuset.mems"), "0");
  });

  test("never limits memory to less than 150 MiB", async () => {
    const files = { ...v1Files, "memory/engine/memory.limit_in_bytes": "" };
    await using fake = await setUp(v1, files, { totalKibibytes: 100 * 1024 });
    await moveIntoCgroup(fake.proc, 50, "/engine");
    assert.equal(await read(fake, "memory/engine/memory.limit_in_bytes"), String(150 * 1024 * 1024));
  });

  test("does nothing where the process is already, not even limit it", async () => {
    const cgroup = inService.replaceAll("/system", "/engine").replace("cpuset:/", "cpuset:/engine");
    await using fake = await setUp(v1, v1Files, { cgroup });
    assert.equal(await moveIntoCgroup(fake.proc, 50, "/engine"), false);
    assert.equal(await read(fake, "memory/engine/cgroup.procs"), "");
    assert.equal(await read(fake, "memory/engine/memory.memsw.limit_in_bytes"), "4");
  });

  test("an error in one hierarchy names it, and the process is moved in the others", async () => {
    await using fake = await setUp(v1, v1Files);
    await rm(join(fake.directory, "memory/engine/memory.limit_in_bytes"));
    await assert.rejects(moveIntoCgroup(fake.proc, 50, "/engine"), /memory cgroup "\/engine"/);
    assert.equal(await read(fake, "memory/engine/cgroup.procs"), "", "not without its limit");
    assert.equal(await read(fake, "cpuset/engine/cgroup.procs"), "50");
  });
});

describe("moveIntoCgroup() with cgroup v2", () => {
  const files = {
    "all/cgroup.subtree_control": "",
    "all/a/cgroup.subtree_control": "",
    "all/a/b/memory.max": "max\n",
    "all/a/b/memory.swap.max": "0",
    "all/a/b/cgroup.procs": "",
  };

  test("hands the memory controller down, limits memory but not swap, and moves", async () => {
    await using fake = await setUp(v2, files, {
      cgroup: "0::/system.slice/docker.service\n",
      totalKibibytes: 1024 * 1024,
    });
    assert.equal(await moveIntoCgroup(fake.proc, 50, "/a/b"), true);
    assert.equal(await read(fake, "all/cgroup.subtree_control"), "+memory");
    assert.equal(await read(fake, "all/a/cgroup.subtree_control"), "+memory");
    assert.equal(await read(fake, "all/a/b/memory.max"), String(Math.floor(oneGigabyte * 1024 * 0.7)));
    assert.equal(await read(fake, "all/a/b/memory.swap.max"), "max");
    assert.equal(await read(fake, "all/a/b/cgroup.procs"), "50");
  });

  test("does not move where the limit cannot be set", async () => {
    await using fake = await setUp(v2, { ...files }, { cgroup: "0::/x\n" });
    await rm(join(fake.directory, "all/a/b/memory.max"));
    await assert.rejects(moveIntoCgroup(fake.proc, 50, "/a/b"), /memory\.max/);
    assert.equal(await read(fake, "all/a/b/cgroup.procs"), "");
  });
});

for (const name of ["/", "", "engine", "/a/../..", "//a"]) {
  test(`moveIntoCgroup() refuses "${name}", which is no cgroup to limit`, async () => {
    await using fake = await setUp(v1, v1Files);
    await assert.rejects(moveIntoCgroup(fake.proc, 50, name), { kind: "invalid" });
  });
}
