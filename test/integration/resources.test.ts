/** Limits, as the kernel has them. */
import assert from "node:assert/strict";
import { access, readFile } from "node:fs/promises";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import type { Answer, LinuxContainerResources } from "../../src/domain/cri.js";
import { NamespaceMode } from "../../src/domain/cri.js";
import { rejectsWith } from "../support/cri-client.js";
import { dockerJson, inspectContainer, podCgroup } from "../support/docker.js";
import { isEngineElsewhere, onEngineHost } from "../support/engine-host.js";
import type { Pod } from "../support/pod.js";
import type { ShimProcess } from "../support/shim-process.js";
import { reasonToSkip, TestBed } from "../support/test-bed.js";
import { until } from "../support/wait.js";

const mebibyte = 1024 * 1024;

/** The directories of a process's cgroups by controller; with version 2 all are the same one. */
async function cgroupFile(containerId: string, controller: string, name: string): Promise<string> {
  const pid = (await inspectContainer(containerId))?.State.Pid ?? 0;
  const lines = (await readFile(onEngineHost(`/proc/${String(pid)}/cgroup`), "utf8")).trim().split("\n");
  for (const line of lines) {
    const [, controllers = "", path = ""] = /^\d+:([^:]*):(.*)$/.exec(line) ?? [];
    if (controllers.split(",").includes(controller)) return join("/sys/fs/cgroup", controllers, path, name);
  }
  const unified = /^0::(.*)$/m.exec(lines.join("\n"))?.[1] ?? "";
  // Beside hierarchies of version 1, version 2 has a directory of its own.
  return join("/sys/fs/cgroup", (await isVersion2()) ? "" : "unified", unified, name);
}

async function isVersion2(): Promise<boolean> {
  return access("/sys/fs/cgroup/cgroup.controllers").then(
    () => true,
    () => false,
  );
}

describe("resources", { skip: await reasonToSkip() }, () => {
  const bed = TestBed.ofSuite();
  let shim: ShimProcess;
  let pod: Pod;
  let v2: boolean;
  let count = 0;
  before(async () => {
    v2 = await isVersion2();
    shim = await bed.startShim();
    pod = await bed.runPod(shim.cri);
  });

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

  test("memory and swap move up and down together, are lifted, and what the kernel refuses changes nothing", async () => {
    const id = await pod.start({
      ...settings({ memory_limit_in_bytes: String(64 * mebibyte) }),
      // Half of it stays in use, in a file system in memory.
      mounts: [],
      command: [
        "sh",
        "-c",
        "dd if=/dev/zero of=/dev/shm/x bs=1M count=32 2>/dev/null; echo ready; sleep 1000",
      ],
    });
    const inForce = async (): Promise<readonly (string | undefined)[]> => {
      const { linux } = (await pod.containerStatus(id)).resources ?? {};
      return [
        await read(id, "memory", v2 ? "memory.max" : "memory.limit_in_bytes"),
        linux?.memory_limit_in_bytes,
        linux?.memory_swap_limit_in_bytes,
      ];
    };
    const resize = (memory: number, swap: number): Promise<unknown> =>
      shim.cri.UpdateContainerResources({
        container_id: id,
        linux: { memory_limit_in_bytes: String(memory), memory_swap_limit_in_bytes: String(swap) },
      });
    for (const [memory, swap, shownSwap] of [
      [128 * mebibyte, 192 * mebibyte, 192 * mebibyte],
      [256 * mebibyte, 0, 320 * mebibyte],
      [96 * mebibyte, 96 * mebibyte, 96 * mebibyte],
    ] as const) {
      await resize(memory, swap);
      assert.deepEqual(await inForce(), [String(memory), String(memory), String(shownSwap)]);
    }
    const used = async (): Promise<number> =>
      Number(await read(id, "memory", v2 ? "memory.current" : "memory.usage_in_bytes"));
    await until("the container uses its memory", async () => (await used()) > 24 * mebibyte);
    const before = await inForce();
    if (!v2) {
      // Version 2 takes any limit, and kills instead.
      await assert.rejects(resize(8 * mebibyte, 8 * mebibyte), /failed to update container/);
      assert.deepEqual(await inForce(), before);
    }
    // A sum of its own, without a limit.
    await resize(96 * mebibyte, -1);
    assert.deepEqual((await inForce())[2], "-1");
    const swapFile = v2 ? "memory.swap.max" : "memory.memsw.limit_in_bytes";
    // Absent where the kernel does not count swap.
    const swapLimit = await read(id, "memory", swapFile).catch(() => "max");
    assert.ok(swapLimit === "max" || Number(swapLimit) >= 2 ** 62, swapLimit);
    await resize(96 * mebibyte, 96 * mebibyte);
    await resize(-1, 0);
    const [kernel, ...shown] = await inForce();
    assert.ok(kernel === "max" || Number(kernel) >= 2 ** 62, kernel);
    assert.deepEqual(shown, ["0", "-1"]);
    await resize(0, 0);
    await resize(64 * mebibyte, 0);
    assert.deepEqual(
      await inForce(),
      Array.from({ length: 3 }, () => String(64 * mebibyte)),
    );
  });

  test("CPU quota is lifted with -1, and a cpuset is exchanged while the container runs", async () => {
    const id = await pod.start(settings({ cpu_period: "100000", cpu_quota: "50000", cpuset_cpus: "0" }));
    const online = (await readFile("/sys/devices/system/cpu/online", "utf8")).trim();
    await shim.cri.UpdateContainerResources({
      container_id: id,
      linux: { cpu_quota: "-1", cpuset_cpus: online },
    });
    assert.match(await read(id, "cpu", v2 ? "cpu.max" : "cpu.cfs_quota_us"), v2 ? /^max / : /^-1$/);
    assert.equal(await read(id, "cpuset", "cpuset.cpus"), online);
    const { linux } = (await pod.containerStatus(id)).resources ?? {};
    assert.deepEqual([linux?.cpu_quota, linux?.cpuset_cpus], ["-1", online]);
  });

  test("a container that needs more memory than its limit is killed, and the status says OOMKilled", async () => {
    const command = ["sh", "-c", "exec tail /dev/zero"];
    const id = await pod.start({ ...settings({ memory_limit_in_bytes: String(16 * mebibyte) }), command });
    const { exit_code, reason } = await pod.untilExited(id);
    assert.deepEqual([exit_code, reason], [137, "OOMKilled"]);
  });

  test("a child that needs too much memory is counted, and is not the reason of a later end", async () => {
    const id = await pod.start({
      ...settings({ memory_limit_in_bytes: String(16 * mebibyte) }),
      log_path: "child.log",
      command: ["sh", "-c", "trap 'exit 143' TERM; tail /dev/zero; echo later; while :; do sleep 0.1; done"],
    });
    // An exec would need memory of the container at the same time, and be killed for it as well.
    const log = join(String(pod.config.log_directory), "child.log");
    await until("the end of the child", async () => (await readFile(log, "utf8")).includes("later"));
    if (!isEngineElsewhere) {
      const { pod_metrics } = await shim.cri.ListPodSandboxMetrics({});
      const counted = pod_metrics
        .flatMap(({ container_metrics }) => container_metrics)
        .find(({ container_id }) => container_id === id)
        ?.metrics.find(({ name }) => name === "container_oom_events_total");
      assert.equal(counted?.value?.value, "1");
    }
    await shim.cri.StopContainer({ container_id: id, timeout: "20" });
    const { status, info } = await shim.cri.ContainerStatus({ container_id: id, verbose: true });
    assert.deepEqual([status?.exit_code, status?.reason], [143, "Error"]);
    assert.equal((JSON.parse(info["info"] ?? "") as Record<string, unknown>)["oomKilled"], true);
  });

  test("oom_score_adj reaches the process; where it cannot be lowered it is clamped", async () => {
    const scoreOf = async (id: string): Promise<number> =>
      Number(
        await readFile(
          onEngineHost(`/proc/${String((await inspectContainer(id))?.State.Pid)}/oom_score_adj`),
          "utf8",
        ),
      );
    assert.equal(await scoreOf(await pod.start(settings({ oom_score_adj: "777" }))), 777);
    const lowest = Number(await readFile("/proc/self/oom_score_adj", "utf8"));
    const sandbox = await scoreOf(pod.id);
    assert.ok(sandbox === -998 || sandbox >= lowest, String(sandbox));
  });

  test("cgroup_parent is where sandbox and containers are, with limits of hugepages and unified ones, over a restart by others", async () => {
    const { parent, pathOf } = await podCgroup(bed.run);
    await using inParent = await bed.runPod(shim.cri, { linux: { cgroup_parent: parent } });
    const limit = String(4 * mebibyte);
    const withHugepages = (value: string, unified = {}) =>
      settings({ hugepage_limits: [{ page_size: "2MB", limit: value }], unified });
    // Kubelets send a zero limit for each page size of the node: that must always work.
    const plain = await inParent.start(withHugepages("0"));
    for (const one of [inParent.id, plain]) {
      const file = await cgroupFile(one, "memory", "x");
      assert.ok(file.endsWith(`${pathOf(one)}/x`), file);
    }
    const high = { "memory.high": String(32 * mebibyte) };
    if (!v2) await rejectsWith(inParent.start(settings({ unified: high })), "INVALID_ARGUMENT", /unified/);
    if (isEngineElsewhere) {
      const unreachable = /cgroup of the container is out of reach/;
      await assert.rejects(inParent.start(withHugepages(limit)), unreachable);
      if (v2) await rejectsWith(inParent.start(settings({ unified: high })), "UNIMPLEMENTED", unreachable);
      return;
    }
    const id = await inParent.start(withHugepages(limit, v2 ? high : {}));
    // A host of version 1 may have the controller in either hierarchy.
    const names = ["hugetlb.2MB.limit_in_bytes", "hugetlb.2MB.max"];
    const inForce = (): Promise<readonly string[]> =>
      Promise.all([
        ...names.map((name) => read(id, "hugetlb", name).catch(() => "none")),
        ...(v2 ? [read(id, "memory", "memory.high")] : []),
      ]);
    const limits = await inForce();
    if (v2) assert.equal(limits.at(-1), high["memory.high"]);
    if (limits[0] !== "none" || limits[1] !== "none") assert.ok(limits.includes(limit), String(limits));
    else assert.match(shim.log, /no limits of hugepages/);
    await dockerJson("POST", `/containers/${id}/restart?t=0`);
    await until(
      "they are those of the next process, too",
      async () => String(await inForce()) === String(limits),
    );
  });
});
