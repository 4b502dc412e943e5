/**
 * Networks of pods that dockershim made, with its kubenet and with cni: with the cache entry that its libcni
 * left, and without one, as kubelets before 1.16. The shim tells their addresses, gives them to no other pod,
 * and releases everything at the end of the pod.
 */
import assert from "node:assert/strict";
import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { builtinPauseReference } from "../../src/shim/pause/pause-image.js";
import { createContainer, inspectContainer, startContainer } from "../support/docker.js";
import { pluginDirs, withOwnEngine } from "../support/isolated-engine.js";
import {
  addToNetwork,
  type HostPort,
  kubenetCidr,
  type LegacyNetwork,
  legacyNetworks,
  networkList,
  openHostPort,
  usualCacheDirectory,
} from "../support/legacy-network.js";
import type { ShimProcess } from "../support/shim-process.js";
import { runLabel, TestBed } from "../support/test-bed.js";
import { until } from "../support/wait.js";
import { command } from "./kubenet-support.js";

const cacheResults = join(usualCacheDirectory, "results");

await withOwnEngine(import.meta.url, [], () => {
  for (const kind of Object.values<LegacyNetwork>(legacyNetworks)) {
    describe(`pods of dockershim with ${kind.plugin}`, () => {
      const bed = TestBed.ofSuite();
      let confDir: string;
      let directory: string;

      before(async () => {
        confDir = await bed.newDirectory();
        directory = await bed.newDirectory();
        if (kind.plugin === "cni") await writeFile(join(confDir, "10-old.conflist"), networkList(kind));
        // So that the pause image is there.
        await using shim = await start();
        await (await bed.runPod(shim.cri))[Symbol.asyncDispose]();
      });

      function start(plugin: string = kind.plugin): Promise<ShimProcess> {
        const flags = [
          `--network-plugin=${plugin}`,
          `--cni-conf-dir=${confDir}`,
          `--cni-bin-dir=${pluginDirs.join(",")}`,
          ...(plugin === "kubenet" ? [`--pod-cidr=${kubenetCidr}`] : []),
        ];
        return bed.startShim({ directory, flags });
      }

      /** With the cache entry of libcni, and without one. */
      const makePods = async (): Promise<readonly AdoptedPod[]> => [
        await makePod(bed, kind, { cached: true }),
        await makePod(bed, kind, { cached: false }),
      ];

      async function assertAddress(shim: ShimProcess, { id, address }: AdoptedPod): Promise<void> {
        const { status } = await shim.cri.PodSandboxStatus({ pod_sandbox_id: id });
        assert.equal(status?.network?.ip, address);
      }

      async function stopAndRemove({ cri }: ShimProcess, { id }: AdoptedPod): Promise<void> {
        await cri.StopPodSandbox({ pod_sandbox_id: id });
        await cri.RemovePodSandbox({ pod_sandbox_id: id });
      }

      test("the address is the pod's alone, and released at its end, also of one that died meanwhile", async () => {
        const living = await makePods();
        const dead = await makePods();
        for (const { id } of dead) {
          await command("kill", "-9", String((await inspectContainer(id))?.State.Pid));
          await until("the end", async () => (await inspectContainer(id))?.State.Running === false);
        }
        await using shim = await start();
        for (const pod of living) await assertAddress(shim, pod);
        await using other = await bed.runPod(shim.cri);
        assert.ok(!living.map(({ address }) => address).includes(await other.ip()));
        for (const pod of [...living, ...dead]) await stopAndRemove(shim, pod);
        for (const pod of [...living, ...dead]) await assertReleased(kind, pod);
      });

      for (const present of ["no-op", "cni", "kubenet"].filter((plugin) => plugin !== kind.plugin)) {
        test(`on a node that has ${present} now, it is released at once`, async () => {
          const pods = await makePods();
          for (const [index, pod] of pods.entries())
            if (kind.plugin === "kubenet") await openHostPort(tcpPort(pod, 18_082 + index));
          await using shim = await start(present);
          for (const pod of pods) {
            await assertAddress(shim, pod);
            await stopAndRemove(shim, pod);
          }
          for (const pod of pods) await assertReleased(kind, pod);
          assert.doesNotMatch(await command("iptables-save", "-t", "nat"), /1808[23]/);
        });
      }

      if (kind.plugin !== "kubenet") return;
      test("host ports and bandwidth limits of dockershim's kubenet end with the pod, and no other ones", async () => {
        const pod = await makePod(bed, kind, { cached: true });
        const neighbour = await makePod(bed, kind, { cached: true });
        await openHostPort(tcpPort(pod, 18_080));
        await openHostPort(tcpPort(neighbour, 18_081));
        await command("tc", "qdisc", "add", "dev", "cbr0", "root", "handle", "1:", "htb", "default", "30");
        await limit(pod.address, 1);
        await limit(neighbour.address, 2);
        await using shim = await start();
        await stopAndRemove(shim, pod);
        await assertReleased(kind, pod);
        const table = await command("iptables-save", "-t", "nat");
        assert.doesNotMatch(table, /18080/);
        assert.match(table, /--dport 18081/);
        const limits = await command("tc", "class", "show", "dev", "cbr0");
        assert.deepEqual(
          [...limits.matchAll(/class htb (1:\d)/g)].map(([, id]) => id),
          ["1:2"],
        );

        await stopAndRemove(shim, neighbour);
        assert.doesNotMatch(await command("iptables-save", "-t", "nat"), /KUBE-HP|KUBE-HOSTPORTS/);
        assert.equal(await command("tc", "class", "show", "dev", "cbr0"), "");
      });
    });
  }
});

interface AdoptedPod {
  readonly id: string;
  readonly name: string;
  readonly address: string;
}

/** A sandbox with its network, as dockershim made both. */
async function makePod(
  bed: TestBed,
  kind: LegacyNetwork,
  { cached }: { readonly cached: boolean },
): Promise<AdoptedPod> {
  const name = bed.newName("net");
  const id = await createContainer(`k8s_POD_${name}_old-ns_uid-${name}_0`, {
    Image: builtinPauseReference,
    Labels: {
      [runLabel]: bed.run,
      "io.kubernetes.pod.name": name,
      "io.kubernetes.pod.namespace": "old-ns",
      "io.kubernetes.pod.uid": `uid-${name}`,
      "io.kubernetes.container.name": "POD",
      "io.kubernetes.docker.type": "podsandbox",
    },
    HostConfig: { NetworkMode: "none", IpcMode: "shareable" },
  });
  await startContainer(id);
  const address = await addToNetwork(kind, id, cached ? usualCacheDirectory : undefined);
  return { id, name, address };
}

async function assertReleased(
  { network, bridge }: LegacyNetwork,
  { id, address }: AdoptedPod,
): Promise<void> {
  assert.equal(await inspectContainer(id), undefined);
  const addresses = `/var/lib/cni/networks/${network}`;
  assert.ok(!(await readdir(addresses)).includes(address), `${address} is still reserved`);
  const entries = (await readdir(cacheResults).catch(() => [])).filter((entry) => entry.includes(id));
  assert.deepEqual(entries, []);
  const ports = await command("ip", "-brief", "link", "show", "master", bridge);
  // Each pod that is left has an address.
  const held = (await readdir(addresses)).filter((file) => /^\d/.test(file));
  assert.equal(ports.split("\n").filter((line) => line !== "").length, held.length, ports);
}

function tcpPort({ id, name, address }: AdoptedPod, hostPort: number): HostPort {
  return { id, pod: `${name}_old-ns`, address, port: { hostPort, containerPort: 80, protocol: "tcp" } };
}

/** As dockershim's kubenet limits a pod. */
async function limit(address: string, number: number): Promise<void> {
  const classId = `1:${number}`;
  await command(
    "tc",
    ..."class add dev cbr0 parent 1: classid".split(" "),
    classId,
    "htb",
    "rate",
    "10000kbit",
  );
  const filter = `filter add dev cbr0 protocol ip parent 1:0 prio 1 u32 match ip dst ${address}/32 flowid ${classId}`;
  await command("tc", ...filter.split(" "));
}
