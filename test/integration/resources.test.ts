/** Limits, as the kernel has them. */
import assert from "node:assert/strict";
import { access, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import type { Answer, LinuxContainerResources } from "../../src/shim/domain/cri.js";
import { NamespaceMode } from "../../src/shim/domain/cri.js";
import { rejectsWith } from "../support/cri-client.js";
import { inspectContainer } from "../support/docker.js";
import type { Pod } from "../support/pod.js";
import type { ShimProcess } from "../support/shim-process.js";
import { reasonToSkip, TestBed } from "../support/test-bed.js";

const mebibyte = 1024 * 1024;

/** The directories of a process's cgroups by controller; with version 2 all are the same one. */
async function cgroupFile(containerId: string, controller: string, name: string): Promise<string> {
  const pid = (await inspectContainer(containerId))?.State.Pid ?? 0;
  const lines = (await readFile(`/proc/${String(pid)}/cgroup`, "utf8")).trim().split("\n");
  for (const line of lines) {
    const [, controllers = "", path = ""] = /^\d+:([^:]*):(.*)$/.exec(line) ?? [];
    if (controllers.split(",").includes(controller)) return join("/sys/fs/cgroup", controllers, path, name);
  }
  const unified = /^0::(.*)$/m.exec(lines.join("\n"))?.[1] ?? "";
  return join("/sys/fs/cgroup", unified, name);
}

async function isVersion2(): Promise<boolean> {
  return access("/sys/fs/cgroup/cgroup.controllers").then(
    () => true,
    () => false,
  );
}

describe("resources", { skip: await reasonToSkip() }, () => {
  let bed: TestBed;
  let shim: ShimProcess;
  let pod: Pod;
  let v2: boolean;
  let count = 0;
  before(async () => {
    v2 = await isVersion2();
    bed = await TestBed.open();
    shim = await bed.startShim();
    pod = await bed.runPod(shim.cri);
  });
  after(() => bed.close());

  const settings = (resources: Answer<LinuxContainerResources>) => ({
    metadata: { name: `c${String((count += 1))}` },
    linux: { security_context: { namespace_options: { pid: NamespaceMode.CONTAINER } }, resources },
  });
  const read = async (id: string, controller: string, name: string): Promise<string> =>
    (await readFile(await cgroupFile(id, controller, name), "utf8")).trim();

  test("memory, CPU and cpuset limits are in the container's cgroup, and updates change them", async () => {
    const id = await pod.start(
      settings({
        memory_limit_in_bytes: String(64 * mebibyte),
        cpu_period: "100000",
        cpu_quota: "50000",
        cpu_shares: "256",
        cpuset_cpus: "0",
      }),
    );
    const limits = async (): Promise<unknown> =>
      v2
        ? [await read(id, "memory", "memory.max"), await read(id, "cpu", "cpu.max")]
        : [
            await read(id, "memory", "memory.limit_in_bytes"),
            `${await read(id, "cpu", "cpu.cfs_quota_us")} ${await read(id, "cpu", "cpu.cfs_period_us")}`,
          ];
    assert.deepEqual(await limits(), [String(64 * mebibyte), "50000 100000"]);
    assert.equal(await read(id, "cpuset", "cpuset.cpus"), "0");
    if (!v2) assert.equal(await read(id, "cpu", "cpu.shares"), "256");

    // Above the old limit, which needs the swap limit to move with it.
    await shim.cri.UpdateContainerResources({
      container_id: id,
      linux: { memory_limit_in_bytes: String(128 * mebibyte), cpu_quota: "25000" },
    });
    assert.deepEqual(await limits(), [String(128 * mebibyte), "25000 100000"]);
    const shown = (await pod.containerStatus(id)).resources?.linux;
    assert.equal(shown?.memory_limit_in_bytes, String(128 * mebibyte));
    assert.equal(shown.cpu_quota, "25000");
    assert.equal(shown.cpuset_cpus, "0");
  });

  test("a container that needs more memory than its limit is killed, and the status says OOMKilled", async () => {
    const id = await pod.start({
      ...settings({ memory_limit_in_bytes: String(16 * mebibyte) }),
      command: ["sh", "-c", "exec tail /dev/zero"],
    });
    const status = await pod.untilExited(id);
    assert.equal(status.exit_code, 137);
    assert.equal(status.reason, "OOMKilled");
  });

  test("oom_score_adj reaches the process; where it cannot be lowered it is clamped", async () => {
    const scoreOf = async (id: string): Promise<number> =>
      Number(
        await readFile(`/proc/${String((await inspectContainer(id))?.State.Pid)}/oom_score_adj`, "utf8"),
      );
    assert.equal(await scoreOf(await pod.start(settings({ oom_score_adj: "777" }))), 777);
    const lowest = Number(await readFile("/proc/self/oom_score_adj", "utf8"));
    const sandbox = await scoreOf(pod.id);
    assert.ok(sandbox === -998 || sandbox >= lowest, String(sandbox));
  });

  test("cgroup_parent is where sandbox and containers are", async () => {
    const systemd = ((await inspectContainer(pod.id))?.HostConfig.CgroupParent ?? "").endsWith(".slice");
    if (systemd) return;
    const parent = `/dockershim-test-${bed.run}`;
    const linux = { cgroup_parent: parent };
    await using inParent = await bed.runPod(shim.cri, { linux });
    const id = await inParent.start();
    for (const one of [inParent.id, id]) {
      assert.match(await cgroupFile(one, "memory", "x"), new RegExp(`${parent}/${one}/x$`));
    }
  });

  test("hugepage limits are written where the kernel has the controller, else refused by name", async () => {
    const pageSize = "2MB";
    const create = (limit: string): Promise<string> =>
      pod.start(settings({ hugepage_limits: [{ page_size: pageSize, limit }] }));
    // Kubelets send a zero limit for each page size of the node: that must always work.
    await create("0");
    const name = v2 ? `hugetlb.${pageSize}.max` : `hugetlb.${pageSize}.limit_in_bytes`;
    const probe = await cgroupFile(pod.id, "hugetlb", name);
    if (
      await stat(probe).then(
        () => true,
        () => false,
      )
    ) {
      const id = await create(String(4 * mebibyte));
      assert.equal(await read(id, "hugetlb", name), String(4 * mebibyte));
    } else {
      await assert.rejects(create(String(4 * mebibyte)), /hugepages/);
    }
  });

  test("unified settings are refused on cgroup version 1, and applied on version 2", async () => {
    const resources = { unified: { "memory.high": String(32 * mebibyte) } };
    if (v2) {
      const id = await pod.start(settings(resources));
      assert.equal(await read(id, "memory", "memory.high"), String(32 * mebibyte));
    } else {
      await rejectsWith(pod.start(settings(resources)), "INVALID_ARGUMENT", /unified/);
    }
  });
});
