/**
 * Networks of pods that dockershim made, with its kubenet and with cni: with the cache entry that its libcni
 * left, and without one, as kubelets before 1.16. The shim tells their addresses, gives them to no other pod,
 * and releases everything at the end of the pod.
 */
import assert from "node:assert/strict";
import { access, mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { runCommand } from "../../src/network/iptables/run-command.js";
import { hostPortChainNames } from "../../src/network/hostport/legacy-chains.js";
import { builtinPauseReference } from "../../src/shim/pause/pause-image.js";
import { createContainer, inspectContainer, startContainer } from "../support/docker.js";
import { pluginDirs, withOwnEngine } from "../support/isolated-engine.js";
import type { ShimProcess } from "../support/shim-process.js";
import { runLabel, TestBed } from "../support/test-bed.js";
import { until } from "../support/wait.js";
import { command, feed } from "./kubenet-support.js";

const never = new AbortController().signal;
const cacheResults = "/var/lib/cni/cache/results";
const kubenetCidr = "10.183.0.0/24";

interface Kind {
  readonly plugin: "kubenet" | "cni";
  readonly network: string;
  readonly bridge: string;
  /** As dockershim gave it to the bridge plugin. */
  readonly configuration: Readonly<Record<string, unknown>>;
}

const ipam = (subnet: string): object => ({
  type: "host-local",
  ranges: [[{ subnet }]],
  routes: [{ dst: "0.0.0.0/0" }],
});

const kinds: readonly Kind[] = [
  {
    plugin: "kubenet",
    network: "kubenet",
    bridge: "cbr0",
    configuration: {
      ...{ cniVersion: "0.1.0", name: "kubenet", type: "bridge", bridge: "cbr0", mtu: 1460, addIf: "eth0" },
      ...{ isGateway: true, ipMasq: false, hairpinMode: false, ipam: ipam(kubenetCidr) },
    },
  },
  {
    plugin: "cni",
    network: "old",
    bridge: "cni-old0",
    configuration: {
      ...{ cniVersion: "0.3.1", name: "old", type: "bridge", bridge: "cni-old0", isGateway: true },
      ipam: ipam("10.184.0.0/24"),
    },
  },
];

await withOwnEngine(import.meta.url, [], () => {
  for (const kind of kinds) {
    describe(`pods of dockershim with ${kind.plugin}`, () => {
      const bed = TestBed.ofSuite();
      let confDir: string;
      let directory: string;

      before(async () => {
        confDir = await bed.newDirectory();
        directory = await bed.newDirectory();
        const { cniVersion, name, ...plugin } = kind.configuration;
        const list = { cniVersion, name, plugins: [plugin] };
        if (kind.plugin === "cni") await writeFile(join(confDir, "10-old.conflist"), JSON.stringify(list));
        // So that the pause image is there.
        await using shim = await start();
        await (await bed.runPod(shim.cri))[Symbol.asyncDispose]();
      });

      function start(): Promise<ShimProcess> {
        const flags = [
          `--network-plugin=${kind.plugin}`,
          `--cni-conf-dir=${confDir}`,
          `--cni-bin-dir=${pluginDirs.join(",")}`,
          ...(kind.plugin === "kubenet" ? [`--pod-cidr=${kubenetCidr}`] : []),
        ];
        return bed.startShim({ directory, flags });
      }

      for (const cache of ["with", "without"] as const) {
        test(`${cache} a cache entry: the address is the pod's alone, and released at its end`, async () => {
          const pod = await makePod(bed, kind, { cached: cache === "with" });
          await using shim = await start();
          const { status } = await shim.cri.PodSandboxStatus({ pod_sandbox_id: pod.id });
          assert.equal(status?.network?.ip, pod.address);
          await using other = await bed.runPod(shim.cri);
          assert.notEqual(await other.ip(), pod.address);

          await shim.cri.StopPodSandbox({ pod_sandbox_id: pod.id });
          await shim.cri.RemovePodSandbox({ pod_sandbox_id: pod.id });
          await assertReleased(kind, pod);
        });

        test(`${cache} a cache entry: what a pod that died meanwhile held is released`, async () => {
          const pod = await makePod(bed, kind, { cached: cache === "with" });
          await command("kill", "-9", String((await inspectContainer(pod.id))?.State.Pid));
          await until("the end", async () => (await inspectContainer(pod.id))?.State.Running === false);
          await using shim = await start();
          await shim.cri.StopPodSandbox({ pod_sandbox_id: pod.id });
          await shim.cri.RemovePodSandbox({ pod_sandbox_id: pod.id });
          await assertReleased(kind, pod);
        });
      }

      if (kind.plugin !== "kubenet") return;
      test("host ports and bandwidth limits of dockershim's kubenet end with the pod, and no other ones", async () => {
        const pod = await makePod(bed, kind, { cached: true });
        const neighbour = await makePod(bed, kind, { cached: true });
        await openHostPort(pod, 18_080);
        await openHostPort(neighbour, 18_081);
        await command("tc", "qdisc", "add", "dev", "cbr0", "root", "handle", "1:", "htb", "default", "30");
        await limit(pod.address, 1);
        await limit(neighbour.address, 2);
        await using shim = await start();
        await shim.cri.StopPodSandbox({ pod_sandbox_id: pod.id });
        await shim.cri.RemovePodSandbox({ pod_sandbox_id: pod.id });
        await assertReleased(kind, pod);
        const table = await command("iptables-save", "-t", "nat");
        assert.doesNotMatch(table, /18080/);
        assert.match(table, /--dport 18081/);
        const limits = await command("tc", "class", "show", "dev", "cbr0");
        assert.deepEqual(
          [...limits.matchAll(/class htb (1:\d)/g)].map(([, id]) => id),
          ["1:2"],
        );

        await shim.cri.StopPodSandbox({ pod_sandbox_id: neighbour.id });
        await shim.cri.RemovePodSandbox({ pod_sandbox_id: neighbour.id });
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
  kind: Kind,
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
  const netns = `/proc/${(await inspectContainer(id))?.State.Pid ?? 0}/ns/net`;
  const environment = {
    ...{ CNI_COMMAND: "ADD", CNI_CONTAINERID: id, CNI_NETNS: netns, CNI_IFNAME: "eth0" },
    ...{ CNI_PATH: pluginDirs.join(":"), CNI_ARGS: "" },
  };
  const words = Object.entries(environment).map(([key, value]) => `${key}=${value}`);
  const config = JSON.stringify(kind.configuration);
  const exit = await runCommand("env", [...words, await pluginPath("bridge")], {
    signal: never,
    input: config,
  });
  assert.equal(exit.exitCode, 0, exit.stdout);
  const result = JSON.parse(exit.stdout) as { ip4?: { ip: string }; ips?: { address: string }[] };
  const address = (result.ip4?.ip ?? result.ips?.[0]?.address ?? "").split("/")[0] ?? "";
  if (cached) {
    await mkdir(cacheResults, { recursive: true, mode: 0o700 });
    const entry = {
      ...{ kind: "cniCacheV1", containerId: id, ifName: "eth0", networkName: kind.network, cniArgs: null },
      config: Buffer.from(config).toString("base64"),
      result,
    };
    await writeFile(join(cacheResults, `${kind.network}-${id}-eth0`), JSON.stringify(entry), { mode: 0o600 });
  }
  return { id, name, address };
}

async function pluginPath(name: string): Promise<string> {
  for (const directory of pluginDirs) {
    const path = join(directory, name);
    if (
      await access(path).then(
        () => true,
        () => false,
      )
    )
      return path;
  }
  throw new Error(`no plugin ${name}`);
}

async function assertReleased({ network, bridge }: Kind, { id, address }: AdoptedPod): Promise<void> {
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

/** As dockershim 1.20 writes it; its chains have their names from it. */
async function openHostPort({ id, name, address }: AdoptedPod, port: number): Promise<void> {
  const [chain = ""] = hostPortChainNames(id, { protocol: "tcp", hostPort: port, hostIp: "" });
  const comment = `-m comment --comment "${name}_old-ns hostport ${port}"`;
  const table = await command("iptables-save", "-t", "nat");
  const isFirst = !table.includes(":KUBE-HOSTPORTS");
  const portals =
    '-m comment --comment "kube hostport portals" -m addrtype --dst-type LOCAL -j KUBE-HOSTPORTS';
  await feed(
    [
      "*nat",
      ...(isFirst ? [":KUBE-HOSTPORTS - [0:0]", ":KUBE-MARK-MASQ - [0:0]"] : []),
      `:${chain} - [0:0]`,
      ...(isFirst ? [`-A PREROUTING ${portals}`, `-A OUTPUT ${portals}`] : []),
      `-I KUBE-HOSTPORTS ${comment} -m tcp -p tcp --dport ${port} -j ${chain}`,
      `-A ${chain} ${comment} -s ${address} -j KUBE-MARK-MASQ`,
      `-A ${chain} ${comment} -m tcp -p tcp -j DNAT --to-destination=${address}:80`,
      "COMMIT",
      "",
    ].join("\n"),
    ...(["iptables-restore", "--noflush"] as const),
  );
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
