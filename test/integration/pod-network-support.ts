/** A node on which a shim makes pod networks with real plugins, which fail when they are told to. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { chmod, mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, before } from "node:test";
import type { CriClient } from "../support/cri-client.js";
import { docker, inspectContainer, removeContainer } from "../support/docker.js";
import { pluginDirs } from "../support/isolated-engine.js";
import type { Pod } from "../support/pod.js";
import { Protocol } from "../../src/domain/cri.js";
import type { ShimOptions, ShimProcess } from "../support/shim-process.js";
import { TestBed, type PodOverrides } from "../support/test-bed.js";
import { until } from "../support/wait.js";
import { command } from "./kubenet-support.js";

export type PluginName = "cni" | "kubenet";

/** In the order of the list; `host-local` is run by `bridge`. */
export const chain = ["bridge", "host-local", "portmap", "bandwidth", "firewall", "tuning"] as const;
/** Those of kubenet that every pod of these tests needs. */
export const kubenetChain = ["bridge", "host-local", "portmap", "bandwidth"] as const;
export type ChainPlugin = (typeof chain)[number];

/** `late`: the plugin does its work, and fails then. `once`: only the first time. `wait`: until it is told to go on. */
export type PluginFault = "fail" | "late" | "once" | "garbage" | "hang" | "wait";

/** Each look takes some programs. */
const holdingsEveryMs = 250;

export const subnets = {
  cni: { ipv4: "10.181.0", ipv6: "fd00:181::" },
  kubenet: { ipv4: "10.182.0", ipv6: "fd00:182::" },
} as const;

export class NetworkNode implements AsyncDisposable {
  shim!: ShimProcess;
  /** What is held when no pod is there, but one was: what plugins make for all pods stays. */
  clean: readonly string[] = [];
  #directory = "";
  #hostPort = 20_000;
  #presentPlugin: PluginName | "no-op" | undefined;

  private constructor(
    readonly bed: TestBed,
    readonly plugin: PluginName,
  ) {}

  /** With a shim that runs, after a first pod. */
  static async open(plugin: PluginName): Promise<NetworkNode> {
    const node = new NetworkNode(await TestBed.open(), plugin);
    await node.#open();
    return node;
  }

  /** Opened before the tests of the suite that is being defined, without faults after each, and closed after them. */
  static ofSuite(plugin: PluginName): NetworkNode {
    const node = new NetworkNode(TestBed.ofSuite(), plugin);
    before(() => node.#open());
    afterEach(() => node.clearFaults());
    return node;
  }

  async #open(): Promise<void> {
    this.#directory = await this.bed.newDirectory();
    for (const name of ["net.d", "bin", "faults", "shim"] as const) await mkdir(this.#path(name));
    for (const name of chain) {
      const path = join(this.#path("bin"), name);
      await writeFile(path, wrapper(name, this.#path("faults")));
      await chmod(path, 0o755);
    }
    await this.configure();
    await this.start();
    const pod = await this.runPod();
    await pod.stop();
    await pod.remove();
    // Also the links of containers of test files that ran in these namespaces before.
    await until(
      "links of earlier pods to be gone",
      async () => !(await linkNames()).some((name) => name.startsWith("veth")),
    ).catch(() => undefined);
    this.clean = await this.holdings();
  }

  #path(name: "net.d" | "bin" | "faults" | "shim"): string {
    return join(this.#directory, name);
  }

  get cri(): CriClient {
    return this.shim.cri;
  }

  get flags(): readonly string[] {
    const { ipv4, ipv6 } = subnets.kubenet;
    return [
      `--network-plugin=${this.#presentPlugin ?? this.plugin}`,
      `--cni-conf-dir=${this.#path("net.d")}`,
      `--cni-bin-dir=${[this.#path("bin"), ...pluginDirs].join(",")}`,
      ...((this.#presentPlugin ?? this.plugin) === "kubenet" ? [`--pod-cidr=${ipv4}.0/24,${ipv6}/64`] : []),
    ];
  }

  /** A shim on the state of the last one, which must have ended. */
  async start(options: Partial<ShimOptions> = {}): Promise<void> {
    this.shim = await this.bed.startShim({ directory: this.#path("shim"), flags: this.flags, ...options });
  }

  /** Another plugin for new pods. */
  async changePlugin(plugin: PluginName | "no-op"): Promise<void> {
    this.#presentPlugin = plugin;
    await this.restart();
  }

  async restart(options: Partial<ShimOptions> = {}): Promise<void> {
    await this.shim.stop();
    await this.start(options);
  }

  /** In place of what is there. */
  async configureWith(name: string, content: object): Promise<void> {
    for (const present of await readdir(this.#path("net.d"))) await rm(join(this.#path("net.d"), present));
    await writeFile(join(this.#path("net.d"), name), JSON.stringify(content));
  }

  async configure(): Promise<void> {
    const { ipv4, ipv6 } = subnets.cni;
    const list = {
      cniVersion: "1.0.0",
      name: "chain",
      plugins: [
        {
          type: "bridge",
          bridge: "cni0",
          isGateway: true,
          ipMasq: true,
          hairpinMode: true,
          ipam: {
            type: "host-local",
            ranges: [[{ subnet: `${ipv4}.0/24` }], [{ subnet: `${ipv6}/64` }]],
            routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }],
          },
        },
        { type: "portmap", capabilities: { portMappings: true }, snat: true },
        { type: "bandwidth", capabilities: { bandwidth: true } },
        { type: "firewall", backend: "iptables" },
        { type: "tuning", sysctl: { "net.core.somaxconn": "500" } },
      ],
    };
    await writeFile(join(this.#path("net.d"), "10-chain.conflist"), JSON.stringify(list));
  }

  async removeConfiguration(): Promise<void> {
    await rm(join(this.#path("net.d"), "10-chain.conflist"));
  }

  /** A configuration for which every plugin of the list has something to do and to undo. */
  podConfig(overrides: PodOverrides = {}): ReturnType<TestBed["podConfig"]> {
    this.#hostPort += 2;
    return this.bed.podConfig({
      port_mappings: [
        { protocol: Protocol.TCP, container_port: 8080, host_port: this.#hostPort },
        { protocol: Protocol.UDP, container_port: 8080, host_port: this.#hostPort + 1 },
      ],
      annotations: {
        "kubernetes.io/ingress-bandwidth": "100M",
        "kubernetes.io/egress-bandwidth": "200M",
      },
      ...overrides,
    });
  }

  runPod(overrides: PodOverrides = {}): Promise<Pod> {
    return this.bed.runPod(this.cri, this.podConfig(overrides));
  }

  /** The plugin has this fault at each of these commands until `clearFaults`. */
  async injectFault(plugin: ChainPlugin, verb: "ADD" | "DEL", fault: PluginFault): Promise<void> {
    await writeFile(join(this.#path("faults"), `${plugin}.${verb}`), fault);
  }

  /** A plugin that waits goes on. */
  async clearFaults(): Promise<void> {
    for (const name of await readdir(this.#path("faults"))) await rm(join(this.#path("faults"), name));
  }

  /** The process group of the plugin that hangs or waits, once it does. */
  async reached(): Promise<number> {
    const path = join(this.#path("faults"), "reached");
    const pid = await until("a plugin to reach its fault", async () =>
      existsSync(path) ? (await readFile(path, "utf8")).trim() : undefined,
    );
    return groupOf(pid);
  }

  /** Every interface, rule, chain, address and cache file; files of the shim and containers. Without counters. */
  async holdings(): Promise<readonly string[]> {
    const lines = (await linkNames()).map((name) => `link ${name}`);
    for (const program of ["iptables-save", "ip6tables-save"]) {
      let table = "";
      for (const line of (await command(program)).split("\n")) {
        if (line.startsWith("*")) table = line.slice(1);
        if (/^[:-]/.test(line)) lines.push(`${program} ${table} ${line.replace(/ \[\d+:\d+\]/, "")}`);
      }
    }
    for (const network of await filesIn("/var/lib/cni/networks")) {
      const addresses = (await filesIn(join("/var/lib/cni/networks", network))).filter(isAddressFile);
      lines.push(...addresses.map((name) => `address ${network} ${name}`));
    }
    lines.push(...(await filesIn("/var/lib/cni/cache/results")).map((name) => `cached ${name}`));
    for (const part of ["sandbox", "pods", "containers", "quarantine"]) {
      const names = await filesIn(join(this.shim.stateDirectory, part));
      lines.push(...names.map((name) => `state ${part} ${name}`));
    }
    lines.push(...(await this.bed.ownContainers()).map((id) => `container ${id}`));
    return lines.sort();
  }

  /** The kernel takes away the links of a namespace that died a moment later. */
  async assertClean(): Promise<void> {
    const expected = JSON.stringify(this.clean);
    await until("everything to be gone", async () => JSON.stringify(await this.holdings()) === expected, {
      everyMs: holdingsEveryMs,
    }).catch(() => undefined);
    assert.deepEqual(await this.holdings(), this.clean);
  }

  /** Something is held of a pod, or a test would prove nothing. */
  async assertHeld(): Promise<void> {
    const held = (await this.holdings()).filter((line) => !this.clean.includes(line)).join("\n");
    for (const trace of [
      ...[/^link veth/m, /^link bwp/m, /^address \w+ 10\./m, /^address \w+ fd00/m, /^cached /m],
      ...[/^iptables-save nat .*CNI-DN-/m, /^ip6tables-save nat .*CNI-DN-/m, /^state sandbox /m],
    ]) {
      assert.match(held, trace);
    }
  }

  /** Undefined when the network is ready, else why it is not. */
  async networkProblem(): Promise<string | undefined> {
    const { status } = await this.cri.Status({});
    const ready = status?.conditions.find(({ type }) => type === "NetworkReady");
    return ready?.status === true ? undefined : `${ready?.reason ?? ""}: ${ready?.message ?? ""}`;
  }

  async stopAndRemove(id: string): Promise<void> {
    await this.cri.StopPodSandbox({ pod_sandbox_id: id });
    await this.cri.RemovePodSandbox({ pod_sandbox_id: id });
  }

  /** Sandboxes of these tests, as the kubelet sees them. */
  async sandboxes(): Promise<readonly { readonly id: string; readonly state: number }[]> {
    const { items } = await this.cri.ListPodSandbox({});
    return items.map(({ id, state }) => ({ id, state }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.clearFaults();
    await this.bed.close();
  }
}

/** Path of the network namespace of a sandbox that runs. */
export async function netnsOf(sandboxId: string): Promise<string> {
  const pid = (await inspectContainer(sandboxId))?.State.Pid ?? 0;
  assert.notEqual(pid, 0);
  return `/proc/${pid}/ns/net`;
}

/** Of the pause container. */
export async function pauseRuns(sandboxId: string): Promise<boolean> {
  return (await inspectContainer(sandboxId))?.State.Running === true;
}

/** As `docker kill`: nothing is torn down. */
export async function killPause(sandboxId: string): Promise<void> {
  const { status } = await docker("POST", `/containers/${sandboxId}/kill`);
  assert.equal(status, 204);
}

/** As `docker rm --force`: nothing is torn down, but the kernel has removed the links of the namespace. */
export async function removePause(sandboxId: string): Promise<void> {
  const veths = async (): Promise<number> =>
    (await linkNames()).filter((name) => name.startsWith("veth")).length;
  const before = await veths();
  await removeContainer(sandboxId);
  await until("the kernel to take the link of the pod away", async () => (await veths()) < before);
}

/** Whether any process of the group is left. */
export function groupLives(group: number): boolean {
  try {
    process.kill(-group, 0);
    return true;
  } catch {
    return false;
  }
}

/** Process ids of plugins that hang. */
export async function hanging(): Promise<readonly string[]> {
  const found: string[] = [];
  for (const pid of (await readdir("/proc")).filter((name) => /^\d+$/.test(name))) {
    const line = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
    if (line.split("\0").includes("987654")) found.push(pid);
  }
  return found;
}

async function groupOf(pid: string): Promise<number> {
  // Past the name, which may hold anything: state, parent, group.
  const stat = await readFile(`/proc/${pid}/stat`, "utf8");
  return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[2]);
}

/** That of these namespaces is mounted there. */
async function linkNames(): Promise<readonly string[]> {
  return readdir("/sys/class/net");
}

async function filesIn(directory: string): Promise<readonly string[]> {
  return (await readdir(directory).catch(() => [])).filter((name) => !name.startsWith("."));
}

/** Others are the lock and the last address of each range. */
function isAddressFile(name: string): boolean {
  return name !== "lock" && !name.startsWith("last_reserved_ip");
}

/** Runs the real plugin, with the fault that a file names. */
function wrapper(name: string, faults: string): string {
  const real = pluginDirs.map((directory) => join(directory, name)).find((path) => existsSync(path)) ?? "";
  return `#!/bin/sh
order="${faults}/${name}.$CNI_COMMAND"
reached="${faults}/reached"
failed() { echo '{"cniVersion": "1.0.0", "code": 100, "msg": "fault"}'; exit 1; }
arrive() { echo $$ > "$reached.new" && mv "$reached.new" "$reached"; }
fault=
[ -e "$order" ] && fault=$(cat "$order")
case "$fault" in
fail) failed ;;
late) ${real} > /dev/null; failed ;;
once) rm "$order"; failed ;;
garbage) echo garbage; [ "$CNI_COMMAND" = ADD ]; exit ;;
hang) arrive; sleep 987654 ;;
wait) arrive; while [ -e "$order" ]; do sleep 0.05; done ;;
esac
exec ${real}
`;
}
