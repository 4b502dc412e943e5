/** The cgroups that `dockershim play` makes for pods, on a real engine. */
import assert from "node:assert/strict";
import { access, readFile } from "node:fs/promises";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { checkCgroups } from "../../src/play/node/cgroups.js";
import { defaultDirectories, podId, serverDirectories } from "../../src/play/pod-config/pod-paths.js";
import { podCgroupPath } from "../../src/play/pod-config/pod-cgroup.js";
import { CgroupDriver } from "../../src/domain/cri.js";
import { messageOf } from "../../src/lib/errors.js";
import { pidOfContainer } from "../support/docker.js";
import { needsEngineHost } from "../support/engine-host.js";
import { PlayFiles } from "../support/play-files.js";
import { reasonToSkip, TestBed } from "../support/test-bed.js";
import { until } from "../support/wait.js";

const megabyte = 1024 ** 2;

describe("the cgroup of a pod", { skip: (await reasonToSkip()) || needsEngineHost("cgroups") }, () => {
  const bed = TestBed.ofSuite({ shim: {} });
  const files = PlayFiles.ofSuite(bed);
  let driver: "cgroupfs" | "systemd";
  /** Why play makes no cgroups here. */
  let reason: string | undefined;
  before(async () => {
    const { linux } = await bed.shim.cri.RuntimeConfig({});
    driver = linux?.cgroup_driver === CgroupDriver.SYSTEMD ? "systemd" : "cgroupfs";
    reason = await checkCgroups(driver).then(() => undefined, messageOf);
  });

  const cgroupOf = (uid: string): string =>
    podCgroupPath(podId(serverDirectories(defaultDirectories, bed.shim.endpoint), { uid }), driver);

  /** The pod's cgroup as its container shows it, with the file of version 1 or that of version 2. */
  async function podFile(
    id: string,
    controller: string,
    version1: string,
    version2: string,
  ): Promise<string> {
    const lines = (await readFile(`/proc/${await pidOfContainer(id)}/cgroup`, "utf8")).split("\n");
    const line = lines.find((one) => one.split(":")[1]?.split(",").includes(controller));
    const path = (line ?? lines.find((one) => one.startsWith("0::")) ?? "").split(":").slice(2).join(":");
    const root = line === undefined ? "/sys/fs/cgroup" : `/sys/fs/cgroup/${controller}`;
    return join(root, path, "..", line === undefined ? version2 : version1);
  }

  async function containerOf(
    pod: string,
    container: string,
  ): Promise<{ id: string; uid: string; exit?: number }> {
    const filter = {
      label_selector: { "io.kubernetes.pod.name": pod, "io.kubernetes.container.name": container },
    };
    const { containers } = await bed.shim.cri.ListContainers({ filter });
    const { id = "", state, labels } = containers[0] ?? {};
    const uid = labels?.["io.kubernetes.pod.uid"] ?? "";
    if (state !== 2) return { id, uid };
    const { status } = await bed.shim.cri.ContainerStatus({ container_id: id });
    return { id, uid, exit: status?.exit_code ?? -1 };
  }

  test("has the sum of its containers' limits, follows a change of the manifest, and is gone after --down", async (context) => {
    if (reason !== undefined) {
      context.skip(reason);
      return;
    }
    const text = (memory: string): string => `
apiVersion: v1
kind: Pod
metadata: {name: limits-RUN}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - {name: a, image: IMAGE, command: [sleep, "1000"], resources: {limits: {cpu: 100m, memory: ${memory}}}}
  - {name: b, image: IMAGE, command: [sleep, "1000"], resources: {requests: {cpu: 50m}, limits: {cpu: 200m, memory: 32Mi}}}
`;
    const path = await files.manifest(text("16Mi"));
    const up = await files.play("--wait", path);
    assert.equal(up.code, 0, up.stderr);
    const name = `limits-${bed.run}`;
    const { id, uid } = await containerOf(name, "b");
    const memory = await podFile(id, "memory", "memory.limit_in_bytes", "memory.max");
    assert.ok(memory.includes(cgroupOf(uid)), memory);
    assert.equal(Number(await readFile(memory, "utf8")), 48 * megabyte);
    const quota = await readFile(await podFile(id, "cpu", "cpu.cfs_quota_us", "cpu.max"), "utf8");
    assert.equal(quota.split(/\s/)[0], "30000");
    const shares = await readFile(await podFile(id, "cpu", "cpu.shares", "cpu.weight"), "utf8");
    assert.match(shares, /^(153|6)\n$/);

    await files.write(path, text("64Mi"));
    const again = await files.play("--wait", path);
    assert.equal(again.code, 0, again.stderr);
    assert.equal((await containerOf(name, "b")).id, id, "the other container was restarted");
    assert.equal(Number(await readFile(memory, "utf8")), 96 * megabyte);

    const down = await files.play("--down", path);
    assert.equal(down.code, 0, down.stderr);
    await assert.rejects(access(join(memory, "..")), { code: "ENOENT" });
  });

  test("its limits are enforced on the sum of containers that keep their own", async (context) => {
    const swap = /SwapTotal:\s+(\d+)/.exec(await readFile("/proc/meminfo", "utf8"))?.[1];
    if (reason !== undefined || swap !== "0") {
      context.skip(reason ?? "this host swaps what is beyond the limit");
      return;
    }
    const hold = `command: [sh, -c, "mkfifo /f; (head -c ${40 * megabyte} /dev/zero; sleep 1000) > /f & exec tail /f"]`;
    const path = await files.manifest(`
apiVersion: v1
kind: Pod
metadata: {name: sum-RUN}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  resources: {limits: {cpu: 1, memory: 64Mi}}
  containers:
  - {name: a, image: IMAGE, ${hold}}
  - {name: b, image: IMAGE, ${hold}}
`);
    const up = files.play("--wait", path);
    const name = `sum-${bed.run}`;
    const exits = await until("a container to be killed", async () => {
      const both = await Promise.all(["a", "b"].map((container) => containerOf(name, container)));
      const ended = both.flatMap(({ exit }) => (exit === undefined ? [] : [exit]));
      return ended.length > 0 ? ended : undefined;
    });
    // The kernel may have to kill both, one after the other.
    assert.deepEqual([...new Set(exits)], [137]);
    await up;
    const { uid } = await containerOf(name, "a");
    const down = await files.play("--down", path);
    assert.equal(down.code, 0, down.stderr);
    for (const root of ["/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/cpu"])
      await assert.rejects(access(join(root, cgroupOf(uid))), { code: "ENOENT" });
  });
});
