import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { isKind } from "../../../../src/lib/errors.js";
import {
  applyCgroup,
  limitsHugepages,
  presentCgroup,
  type CgroupTarget,
} from "../../../../src/shim/host/cgroup/write-cgroup-limits.js";
import { directoryOf, readCgroupMounts } from "../../../../src/shim/host/cgroup/cgroup-paths.js";
import { idOf } from "../../../fakes/snapshots.js";
import { FakeProc } from "../fake-proc.js";

const id = idOf("3f");
const nothing = { unified: {}, hugepages: [] };

/**
 * A host whose container has the process 100, with the given mounts below the directory and files of its
 * cgroups.
 */
async function setUp(
  cgroup: string,
  mounts: readonly (readonly [directory: string, type: "cgroup" | "cgroup2", options: string])[],
  files: readonly string[],
): Promise<FakeProc> {
  const fake = await FakeProc.make();
  const lines = mounts.map(
    ([name, type, options], index) =>
      `${30 + index} 20 0:2 / ${join(fake.directory, name)} rw - ${type} ${type} ${options}`,
  );
  await fake.add("self", { files: { mountinfo: `${lines.join("\n")}\n` } });
  await fake.add(100, { cgroup });
  for (const file of files) {
    await mkdir(join(fake.directory, file, ".."), { recursive: true });
    await writeFile(join(fake.directory, file), "");
  }
  return fake;
}

const v1Cgroup = `4:memory:/docker/${id}\n3:hugetlb:/docker/${id}\n0::/docker/${id}\n`;
const v1Mounts = [
  ["memory", "cgroup", "rw,memory"],
  ["huge", "cgroup", "rw,hugetlb"],
  ["unified", "cgroup2", "rw"],
] as const;
const v2Cgroup = `0::/kubepods.slice/docker-${id}.scope/init\n`;
const v2Mounts = [["all", "cgroup2", "rw,nsdelegate"]] as const;
const scope = `all/kubepods.slice/docker-${id}.scope`;
const v1: CgroupTarget = { containerId: id, pid: 100, cgroupVersion: 1 };
const v2: CgroupTarget = { containerId: id, pid: 100, cgroupVersion: 2 };

test("limitsHugepages() is true where the OCI runtime's version of cgroups has the controller", async () => {
  const file = "all/cgroup.controllers";
  await using two = await setUp(v2Cgroup, v2Mounts, [file]);
  await using one = await setUp(v1Cgroup, v1Mounts, []);
  const [second, first] = [await readCgroupMounts(two.proc), await readCgroupMounts(one.proc)];
  const of = (controllers: string): Promise<boolean> =>
    writeFile(join(two.directory, file), controllers).then(() =>
      limitsHugepages(second, 2, join(two.directory, "all")),
    );
  assert.deepEqual([await of("cpu hugetlb\n"), await of("cpu\n")], [true, false]);
  // A node with both versions may have the controller in the other one.
  assert.deepEqual([await limitsHugepages(first, 1), await limitsHugepages(second, 1)], [true, false]);
});

describe("applyCgroup()", () => {
  test("writes limits of hugepages, reservations included, with cgroup v1", async () => {
    const limit = `huge/docker/${id}/hugetlb.2MB.limit_in_bytes`;
    const reservations = `huge/docker/${id}/hugetlb.2MB.rsvd.limit_in_bytes`;
    await using fake = await setUp(v1Cgroup, v1Mounts, [limit, reservations]);
    const hugepages = [{ pageSize: "2MB", limitBytes: 1n << 60n }];
    await applyCgroup(v1, { unified: {}, hugepages }, fake.proc);
    assert.equal(await readFile(join(fake.directory, limit), "utf8"), String(1n << 60n));
    assert.equal(await readFile(join(fake.directory, reservations), "utf8"), String(1n << 60n));
  });

  test("writes them to the hierarchy of v2 where v1 has no such controller", async () => {
    const limit = `unified/docker/${id}/hugetlb.1GB.max`;
    await using fake = await setUp(v1Cgroup.replace(/^3.*\n/m, ""), v1Mounts, [limit]);
    await applyCgroup(v1, { unified: {}, hugepages: [{ pageSize: "1GB", limitBytes: 0n }] }, fake.proc);
    assert.equal(await readFile(join(fake.directory, limit), "utf8"), "0");
  });

  test("writes with cgroup v2 to the container's own cgroup and not to a cgroup below it", async () => {
    const files = [`${scope}/memory.high`, `${scope}/hugetlb.2MB.max`, `${scope}/init/memory.high`];
    await using fake = await setUp(v2Cgroup, v2Mounts, files);
    const hugepages = [{ pageSize: "2MB", limitBytes: 4096n }];
    await applyCgroup(v2, { unified: { "memory.high": "1000000" }, hugepages }, fake.proc);
    const texts = files.map((file) => readFile(join(fake.directory, file), "utf8"));
    assert.deepEqual(await Promise.all(texts), ["1000000", "4096", ""]);
  });

  const mebibytes = { unified: {}, hugepages: [{ pageSize: "2MB", limitBytes: 4096n }] };

  for (const [what, cgroup, mounts, target] of [
    ["v1", `4:memory:/docker/${id}\n`, v1Mounts.slice(0, 1), v1],
    ["v2", v2Cgroup, v2Mounts, v2],
  ] as const) {
    test(`leaves out limits of hugepages on a host of ${what} without the controller, and names those above 0`, async () => {
      await using fake = await setUp(cgroup, mounts, [`all/kubepods.slice/docker-${id}.scope/memory.max`]);
      const none = { unified: {}, hugepages: [{ pageSize: "2MB", limitBytes: 0n }] };
      assert.deepEqual(await applyCgroup(target, none, fake.proc), []);
      assert.deepEqual(await applyCgroup(target, mebibytes, fake.proc), ["2MB"]);
    });
  }

  test("refuses a size of hugepages that the controller does not have", async () => {
    await using fake = await setUp(v2Cgroup, v2Mounts, [`${scope}/cgroup.controllers`]);
    await writeFile(join(fake.directory, scope, "cgroup.controllers"), "cpu hugetlb memory\n");
    await assert.rejects(applyCgroup(v2, mebibytes, fake.proc), { kind: "unsupported" });
  });

  test("writes all that can be written, and then throws the first error", async () => {
    const files = [`${scope}/memory.high`, `${scope}/memory.oom.group`, `${scope}/hugetlb.2MB.max`];
    await using fake = await setUp(v2Cgroup, v2Mounts, files);
    const unified = { "memory.swap.max": "0", "memory.high": "1000000", "x/y": "1", "memory.oom.group": "1" };
    await assert.rejects(applyCgroup(v2, { ...mebibytes, unified }, fake.proc), {
      kind: "unsupported",
      message: /^cgroup setting "memory\.swap\.max"/,
    });
    const texts = files.map((file) => readFile(join(fake.directory, file), "utf8"));
    assert.deepEqual(await Promise.all(texts), ["1000000", "1", "4096"]);
  });

  type Refused = readonly [what: string, unified: Record<string, string>, kind: "invalid" | "unsupported"];
  const refused: readonly Refused[] = [
    ["a name that leads elsewhere", { "../../memory.high": "1" }, "invalid"],
    ["an absolute name", { "/etc/passwd": "1" }, "invalid"],
    ["a file that moves processes", { "cgroup.procs": "1" }, "invalid"],
    ["a name without a controller", { memory: "1" }, "invalid"],
    ["a file that the host has not", { "memory.low": "1" }, "unsupported"],
  ];
  for (const [what, settings, kind] of refused) {
    test(`refuses ${what}`, async () => {
      await using fake = await setUp(v2Cgroup, v2Mounts, [`${scope}/cgroup.procs`, `${scope}/memory`]);
      const applying = applyCgroup(v2, { unified: settings, hugepages: [] }, fake.proc);
      await assert.rejects(applying, (error) => isKind(error, kind));
      assert.equal(await readFile(join(fake.directory, scope, "cgroup.procs"), "utf8"), "");
    });
  }

  test("refuses a page size that leads elsewhere", async () => {
    await using fake = await setUp(v2Cgroup, v2Mounts, []);
    const settings = { unified: {}, hugepages: [{ pageSize: "2MB.max/../../x", limitBytes: 0n }] };
    await assert.rejects(applyCgroup(v2, settings, fake.proc), { kind: "invalid" });
  });

  const foreign: readonly (readonly [what: string, target: CgroupTarget])[] = [
    ["whose pid is another's by now", { ...v2, containerId: idOf("4f") }],
    ["that does not run", { ...v2, pid: 0 }],
    ["whose process is gone", { ...v2, pid: 101 }],
  ];
  for (const [what, target] of foreign) {
    test(`refuses a container ${what}`, async () => {
      await using fake = await setUp(v2Cgroup, v2Mounts, []);
      await assert.rejects(applyCgroup(target, nothing, fake.proc), { kind: "unsupported" });
    });
  }
});

describe("cgroup mounts", () => {
  test("readCgroupMounts() reads controllers, names, escapes and the hierarchy of v2", async () => {
    const mountinfo = [
      "25 30 0:22 / /sys rw,nosuid shared:7 - sysfs sysfs rw",
      "33 32 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 master:2 - cgroup cgroup rw,cpu,cpuacct",
      "34 32 0:30 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd",
      "35 32 0:31 / /mnt/a\\040b rw - cgroup2 cgroup2 rw",
      "36 32 0:29 / /elsewhere rw - cgroup cgroup rw,cpu,cpuacct",
      "",
    ].join("\n");
    await using fake = await FakeProc.make();
    await fake.add("self", { files: { mountinfo } });
    const mounts = await readCgroupMounts(fake.proc);
    assert.equal(mounts.get("cpu")?.mountPoint, "/sys/fs/cgroup/cpu,cpuacct");
    assert.deepEqual(mounts.get("cpuacct"), mounts.get("cpu"));
    assert.equal(mounts.get("name=systemd")?.mountPoint, "/sys/fs/cgroup/systemd");
    assert.equal(mounts.get("")?.mountPoint, "/mnt/a b");
    assert.equal(mounts.get("memory"), undefined);
  });

  const places: readonly (readonly [root: string, path: string, expected: string | undefined])[] = [
    ["/", "/docker/x", "/cg/docker/x"],
    ["/", "/", "/cg/"],
    ["/docker/x", "/docker/x/y", "/cg/y"],
    ["/docker/x", "/docker/x", "/cg/"],
    ["/docker/x", "/docker/xy", undefined],
    ["/", "/../outside", undefined],
  ];
  for (const [root, path, expected] of places) {
    test(`directoryOf() answers ${expected} for "${path}" where "${root}" is mounted`, () => {
      const mount = { mountPoint: "/cg", root };
      if (expected === undefined) {
        assert.throws(() => directoryOf(mount, path), { kind: "unsupported" });
      } else assert.equal(directoryOf(mount, path), expected);
    });
  }
});

describe("presentCgroup()", () => {
  test("reads what the settings name, and nothing outside of the cgroup", async () => {
    const names = ["memory.high", "io.max", "hugetlb.2MB.max", "hugetlb.1GB.max"];
    const files = names.map((name) => `${scope}/${name}`);
    await using fake = await setUp(v2Cgroup, v2Mounts, files);
    const texts = ["max\n", "\n", "max\n", "1073741824\n"];
    for (const [index, text] of texts.entries()) await writeFile(join(fake.directory, files[index]!), text);
    const settings = {
      unified: { "memory.high": "1", "io.max": "x", "memory.low": "1", "../../cgroup": "1" },
      hugepages: ["2MB", "1GB", "64KB", "/../x"].map((pageSize) => ({ pageSize, limitBytes: 0n })),
    };
    assert.deepEqual(await presentCgroup(v2, settings, fake.proc), {
      unified: { "memory.high": "max", "io.max": "" },
      hugepages: [
        { pageSize: "2MB", limitBytes: 2n ** 63n - 1n },
        { pageSize: "1GB", limitBytes: 1n << 30n },
      ],
    });
    assert.equal(await presentCgroup({ ...v2, containerId: idOf("ee") }, settings, fake.proc), undefined);
  });
});
