import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, test } from "node:test";
import {
  type CgroupHost,
  checkCgroups,
  makeCgroup,
  removeCgroup,
} from "../../../../src/play/node/cgroups.js";
import type { PodCgroup } from "../../../../src/play/pod-config/pod-cgroup.js";
import { temporaryDirectory } from "../../lib/temporary-directory.js";

const cgroup: PodCgroup = {
  id: "u-1",
  driver: "cgroupfs",
  cpuShares: 1024n,
  cpuQuotaMicros: 12_500n,
  memoryBytes: 67_108_864n,
  hugePages: [],
};
const ownPath = "dockershim-play/podu-1";
const slice = "dockershimplay-podu_1.slice";
const slicePath = `dockershimplay.slice/${slice}`;

interface Bench extends CgroupHost {
  readonly root: string;
  readonly calls: string[];
  /** The kernel makes these files with a cgroup; here the test does. */
  add(path: string, text?: string): Promise<void>;
  text(path: string): Promise<string>;
}

/** A host whose hierarchies are directories: `mounts` are controllers of version 1, or `unified`. */
async function onHost(mounts: readonly string[], work: (host: Bench) => Promise<void>): Promise<void> {
  await using directory = await temporaryDirectory();
  const root = directory.path;
  const lines = mounts.map((name, index) => {
    const type = name === "unified" ? "cgroup2 cgroup2 rw" : `cgroup cgroup rw,${name}`;
    return `${index} 1 0:${index} / ${join(root, name)} rw - ${type}\n`;
  });
  for (const name of mounts) await mkdir(join(root, name));
  const mountTable = join(root, "mountinfo");
  await writeFile(mountTable, lines.join(""));
  await mkdir(join(root, "systemd"));
  const calls: string[] = [];
  await work({
    ...{ root, calls, mountTable, pauseMs: 1 },
    systemd: join(root, "systemd"),
    properties: join(root, "control"),
    systemctl: (words) => {
      calls.push(words.join(" "));
      return Promise.resolve("");
    },
    add: async (path, text = "") => {
      await mkdir(dirname(join(root, path)), { recursive: true });
      await writeFile(join(root, path), text);
    },
    text: (path) => readFile(join(root, path), "utf8"),
  });
}

const filesOfVersion1 = [
  "cpu/cpu.shares",
  "cpu/cpu.cfs_period_us",
  "cpu/cpu.cfs_quota_us",
  "memory/memory.limit_in_bytes",
];
const nameIn = (file: string): string => file.replace("/", `/${ownPath}/`);

describe("makeCgroup() with cgroupfs", () => {
  test("writes the limits of version 1 into the hierarchies of their controllers", () =>
    onHost(["cpu", "memory", "pids", "unified"], async (host) => {
      for (const file of filesOfVersion1) await host.add(nameIn(file));
      const texts = () => Promise.all(filesOfVersion1.map((file) => host.text(nameIn(file))));
      await makeCgroup(cgroup, host);
      assert.deepEqual(await texts(), ["1024", "100000", "12500", "67108864"]);
      // A changed manifest has no limits; the kernel replaces what is written.
      for (const file of filesOfVersion1) await host.add(nameIn(file));
      await makeCgroup({ ...cgroup, cpuQuotaMicros: undefined, memoryBytes: undefined }, host);
      assert.deepEqual(await texts(), ["1024", "100000", "-1", "-1"]);
      assert.deepEqual(await readdir(join(host.root, "pids")), []);
      assert.deepEqual(host.calls, []);
    }));

  test("gives the controllers to the cgroups above with version 2, and writes its limits", () =>
    onHost(["unified"], async (host) => {
      const controllers = "cpuset cpu io memory hugetlb pids\n";
      await host.add("unified/cgroup.controllers", controllers);
      await host.add("unified/cgroup.subtree_control", "cpu memory\n");
      await host.add("unified/dockershim-play/cgroup.controllers", controllers);
      await host.add("unified/dockershim-play/cgroup.subtree_control", "     memory\n");
      for (const file of ["cpu.weight", "cpu.max", "memory.max"])
        await host.add(`unified/${ownPath}/${file}`);
      await makeCgroup(cgroup, host);
      assert.equal(await host.text("unified/cgroup.subtree_control"), "cpu memory\n");
      // The kernel adds what is written; here it replaces the first blanks.
      assert.equal(await host.text("unified/dockershim-play/cgroup.subtree_control"), "+cpu memory\n");
      assert.equal(await host.text(`unified/${ownPath}/cpu.weight`), "39");
      assert.equal(await host.text(`unified/${ownPath}/cpu.max`), "12500 100000");
      assert.equal(await host.text(`unified/${ownPath}/memory.max`), "67108864");
    }));

  test("makes no file that the kernel has not, and names a limit that it cannot set", () =>
    onHost(["cpu", "memory"], async (host) => {
      await host.add(nameIn("cpu/cpu.shares"));
      const without = { ...cgroup, cpuQuotaMicros: undefined };
      await assert.rejects(makeCgroup(without, host), /write 67108864 to ".*memory.limit_in_bytes"/);
      assert.deepEqual(await readdir(join(host.root, "memory", ownPath)), []);
    }));
});

describe("makeCgroup() with systemd", () => {
  const unlimited = { cpuQuotaMicros: undefined, memoryBytes: undefined };
  for (const [what, mounts, changes, properties] of [
    ["whole percents of a CPU, rounded up", ["unified"], {}, "CPUWeight=39 CPUQuota=13% MemoryMax=67108864"],
    [
      "the properties of version 1, which take limits away again",
      ["cpu", "memory"],
      unlimited,
      "CPUShares=1024 CPUQuota= MemoryLimit=infinity",
    ],
  ] as const)
    test(`gives the slice ${what}`, () =>
      onHost(mounts, async (host) => {
        await makeCgroup({ ...cgroup, driver: "systemd", ...changes }, host);
        assert.deepEqual(host.calls, [`set-property --runtime ${slice} ${properties}`]);
      }));
});

for (const driver of ["cgroupfs", "systemd"] as const)
  test(`makeCgroup() limits huge pages with ${driver}, where the host has their controller`, () =>
    onHost(["cpu", "memory", "hugetlb"], async (host) => {
      for (const file of filesOfVersion1) await host.add(nameIn(file));
      const path = `hugetlb/${driver === "systemd" ? slicePath : ownPath}/hugetlb.2MB.limit_in_bytes`;
      await host.add(path);
      await makeCgroup({ ...cgroup, driver, hugePages: [{ size: "2MB", limitBytes: 4096n }] }, host);
      assert.equal(await host.text(path), "4096");
      assert.equal(host.calls.at(-1), driver === "systemd" ? `start ${slice}` : undefined);
    }));

describe("removeCgroup()", () => {
  test("removes the cgroup and what is below it in all hierarchies, and no other pod's", () =>
    onHost(["cpu", "memory", "unified"], async (host) => {
      for (const mount of ["cpu", "unified"]) {
        await mkdir(join(host.root, mount, ownPath, "container"), { recursive: true });
        await mkdir(join(host.root, mount, "dockershim-play/podother"));
      }
      await removeCgroup("u-1", host);
      await removeCgroup("u-1", host);
      assert.deepEqual(await readdir(join(host.root, "cpu/dockershim-play")), ["podother"]);
      assert.deepEqual(await readdir(join(host.root, "unified/dockershim-play")), ["podother"]);
      assert.deepEqual(host.calls, []);
    }));

  test("stops the slice and forgets its properties", () =>
    onHost(["cpu", "unified"], async (host) => {
      await mkdir(join(host.root, "cpu", slicePath), { recursive: true });
      await host.add(`control/${slice}.d/50-MemoryMax.conf`, "[Slice]");
      await removeCgroup("u-1", host);
      assert.deepEqual(host.calls, [`stop ${slice}`]);
      assert.deepEqual(await readdir(join(host.root, "cpu/dockershimplay.slice")), []);
      assert.deepEqual(await readdir(join(host.root, "control")), []);
    }));

  test("kills what a runtime has left in the cgroup of a container, and nothing beside it", () =>
    onHost(["unified"], async (host) => {
      const [left, beside] = [spawn("sleep", ["60"]), spawn("sleep", ["60"])];
      const container = `unified/${ownPath}/${"a1".repeat(32)}`;
      await host.add(`${container}/cgroup.procs`, `0\n${left.pid}\n`);
      await host.add(`unified/${ownPath}/other/cgroup.procs`, `${beside.pid}\n`);
      left.once("exit", () => void rm(join(host.root, container), { recursive: true }));
      const [exit] = await Promise.all([
        once(left, "exit"),
        assert.rejects(
          removeCgroup("u-1", host),
          new RegExp(`a process .* is in it: ${beside.pid} \\(sleep\\)`),
        ),
      ]);
      assert.deepEqual([exit[1], beside.exitCode, beside.signalCode], ["SIGKILL", null, null]);
      beside.kill();
    }));

  test("leaves a cgroup that has a process, and does not stop its slice", () =>
    onHost(["unified"], async (host) => {
      await host.add(`unified/${slicePath}/docker-1.scope/cgroup.procs`, "7\n");
      await assert.rejects(removeCgroup("u-1", host), /remove cgroup ".*podu_1.slice": a process/);
      assert.deepEqual(host.calls, []);
    }));
});

describe("checkCgroups()", () => {
  test("refuses a host without cgroups, without systemd or without a controller", async () => {
    await onHost([], (host) => assert.rejects(checkCgroups("cgroupfs", host), /are not mounted here/));
    await onHost(["cpu"], (host) => assert.rejects(checkCgroups("cgroupfs", host), /memory/));
    await onHost(["cpu", "memory"], (host) =>
      assert.rejects(
        checkCgroups("systemd", { ...host, systemd: join(host.root, "none") }),
        /systemd does not run here/,
      ),
    );
    await onHost(["unified"], async (host) => {
      await host.add("unified/cgroup.controllers", "cpuset pids\n");
      await assert.rejects(checkCgroups("cgroupfs", host), /controller cpu is not available/);
    });
  });

  test("makes the cgroup that holds those of the pods", () =>
    onHost(["cpu", "memory"], async (host) => {
      await checkCgroups("cgroupfs", host);
      assert.deepEqual(await readdir(join(host.root, "cpu")), ["dockershim-play"]);
      await checkCgroups("systemd", host);
      assert.deepEqual(host.calls, ["show --property=Version"]);
    }));
});
