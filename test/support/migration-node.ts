/** Nodes whose pods one program made, or several, as directories that stand for their roots. */
import { mkdir, rm, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { command } from "../integration/kubenet-support.js";
import { defaultSockets } from "../../src/migrate/kubelet/target.js";
import { criDockerdCheckpoints } from "../../src/shim/state/state-directory.js";
import { dockerJson, inspectContainer } from "./docker.js";
import { pluginDirs } from "./isolated-engine.js";
import { addToNetwork, kubenetCidr, legacyNetworks, networkList, openHostPort } from "./legacy-network.js";
import {
  type LegacyProgram,
  checkpointOf,
  makeRecordedPod,
  type MadePod,
  requestsOf,
} from "./recorded-pods.js";
import { type Exit, runProgram, type ShimProcess } from "./shim-process.js";
import type { TestBed } from "./test-bed.js";
import { walk } from "./walk.js";

export const nodeKinds = ["dockershim", "cri-dockerd", "ours", "mixed"] as const;
export type NodeKind = (typeof nodeKinds)[number];
export const nodeNetworks = ["no-op", "cni", "kubenet"] as const;
export type NodeNetwork = (typeof nodeNetworks)[number];
export type Maker = LegacyProgram | "ours";

export interface NodePod extends MadePod {
  readonly maker: Maker;
  /** Empty with the network of the host. */
  readonly address: string;
}

/** Who made the pods, and which of them are in the network of the host. */
const podsOf: Readonly<Record<NodeKind, readonly (readonly [Maker, "pod" | "host"])[]>> = {
  dockershim: [
    ["dockershim", "pod"],
    ["dockershim", "host"],
  ],
  "cri-dockerd": [
    ["cri-dockerd", "pod"],
    ["cri-dockerd", "host"],
  ],
  ours: [
    ["ours", "pod"],
    ["ours", "host"],
  ],
  mixed: [
    ["dockershim", "pod"],
    ["cri-dockerd", "pod"],
    ["ours", "pod"],
  ],
};

const kubeadmFlags = "/var/lib/kubelet/kubeadm-flags.env";

/** Of the kubelet that such a node has. */
const kubeletVersions: Readonly<Record<NodeKind, string>> = {
  dockershim: "1.20.15",
  "cri-dockerd": "1.30.1",
  ours: "1.23.17",
  mixed: "1.30.1",
};

/** Units and files by their path on the node. */
function filesOf(kind: NodeKind, network: NodeNetwork): Readonly<Record<string, string>> {
  const unit = (command: string): string => `[Service]\nExecStart=${command}\n`;
  const cidr = network === "kubenet" ? ` --pod-cidr=${kubenetCidr}` : "";
  // Without a plugin dockershim and cri-dockerd have no network of their own.
  const plugin = `--network-plugin=${network === "no-op" ? '""' : network}${cidr}`;
  const dockershim = unit(`/opt/dockershim/bin/dockershim --network-plugin=${network}${cidr}`);
  const criDockerd = unit(
    `/usr/bin/cri-dockerd --container-runtime-endpoint unix:///run/cri-dockerd.sock ${plugin}`,
  );
  const kubelet = (flags: string): Readonly<Record<string, string>> => ({
    "/etc/systemd/system/kubelet.service": unit(`/usr/bin/kubelet ${flags}`),
  });
  const kubeadm = (endpoint: string): Readonly<Record<string, string>> => ({
    ...kubelet(
      `--config=/var/lib/kubelet/config.yaml $KUBELET_KUBEADM_ARGS\nEnvironmentFile=-${kubeadmFlags}`,
    ),
    [kubeadmFlags]: `KUBELET_KUBEADM_ARGS="--container-runtime-endpoint=${endpoint} --node-ip=10.0.0.1"\n`,
    "/var/lib/kubelet/config.yaml": "kind: KubeletConfiguration\ncgroupDriver: cgroupfs\n",
  });
  const [ours, theirs] = ["/etc/systemd/system/dockershim.service", "/etc/systemd/system/cri-docker.service"];
  const enabled = "/etc/systemd/system/multi-user.target.wants/dockershim.service";
  switch (kind) {
    case "dockershim":
      return kubelet(`--container-runtime=docker ${plugin}`);
    case "cri-dockerd":
      return { ...kubeadm(defaultSockets["cri-dockerd"]), [theirs]: criDockerd };
    case "ours":
      return {
        ...kubelet(`--container-runtime=remote --container-runtime-endpoint=${defaultSockets.dockershim}`),
        ...{ [ours]: dockershim, [enabled]: dockershim },
      };
    case "mixed":
      return {
        ...kubeadm(defaultSockets.dockershim),
        ...{ [ours]: dockershim, [enabled]: dockershim, [theirs]: criDockerd },
      };
  }
}

export interface NodeState {
  /** As the engine describes them. */
  readonly containers: readonly unknown[];
  readonly checkpoints: readonly string[];
  readonly networks: readonly string[];
  readonly rules: readonly string[];
  readonly links: readonly string[];
  /** All below the root, also the records of this program. */
  readonly files: readonly string[];
}

/** What stays while a server of this program runs that makes and removes a pod. */
export function lastingOf({ files: _files, networks, ...state }: NodeState): Omit<NodeState, "files"> {
  const isLasting = (line: string): boolean =>
    line.startsWith("file ") && !line.includes("/last_reserved_ip");
  return { ...state, networks: networks.filter(isLasting) };
}

export class MigrationNode {
  readonly pods: NodePod[] = [];

  private constructor(
    private readonly bed: TestBed,
    readonly kind: NodeKind,
    readonly network: NodeNetwork,
    readonly root: string,
  ) {}

  static async make(bed: TestBed, kind: NodeKind, network: NodeNetwork): Promise<MigrationNode> {
    const node = new MigrationNode(bed, kind, network, await bed.newDirectory());
    await node.#makeFiles();
    await using shim = await node.serve();
    // So that the pause image is there.
    await (await bed.runPod(shim.cri))[Symbol.asyncDispose]();
    for (const [number, [maker, place]] of podsOf[kind].entries()) {
      const pod = { number, isHost: place === "host" };
      node.pods.push(await (maker === "ours" ? node.#runOwn(shim, pod) : node.#makeLegacy(maker, pod)));
    }
    await shim.stop();
    return node;
  }

  /** Path on this machine of a path on the node. */
  path(path: string): string {
    return join(this.root, path);
  }

  checkpoints(maker: Maker): string {
    return this.path(maker === "cri-dockerd" ? criDockerdCheckpoints : "/var/lib/dockershim/sandbox");
  }

  /** The flags with which this program serves the node. */
  get flags(): readonly string[] {
    return [
      `--network-plugin=${this.network}`,
      `--state-dir=${this.path("/var/lib/dockershim")}`,
      `--cni-conf-dir=${this.path("/etc/cni/net.d")}`,
      `--cni-cache-dir=${this.path("/var/lib/cni/cache")}`,
      `--cni-bin-dir=${pluginDirs.join(",")}`,
      ...(this.network === "kubenet" ? [`--pod-cidr=${kubenetCidr}`] : []),
    ];
  }

  async serve(...more: readonly string[]): Promise<ShimProcess> {
    return this.bed.startShim({ flags: [...this.flags, ...more] });
  }

  /** `migrate check` or `plan` of the node, or of a copy of its files. */
  migrate(subject: "check" | "plan", root: string, ...flags: readonly string[]): Promise<Exit> {
    const version = kubeletVersions[this.kind];
    return runProgram(["migrate", subject, "--root", root, "--kubelet-version", version, ...flags]);
  }

  /** Everything of the node that a command could change. */
  async state(): Promise<NodeState> {
    const ids = ((await dockerJson("GET", "/containers/json?all=1")) as { Id: string }[]).map(({ Id }) => Id);
    const rules = await command("iptables-save");
    const directories = [this.checkpoints("dockershim"), this.checkpoints("cri-dockerd")];
    return {
      containers: await Promise.all(ids.sort().map((id) => dockerJson("GET", `/containers/${id}/json`))),
      checkpoints: (await Promise.all(directories.map(walk))).flat(),
      networks: [...(await walk(this.path("/var/lib/cni"))), ...(await walk("/var/lib/cni"))],
      rules: rules.split("\n").map((line) => line.replace(/\[\d+:\d+\]|^#.*/, "")),
      links: (await command("ip", "-brief", "link")).split("\n").sort(),
      files: await walk(this.root),
    };
  }

  async #makeFiles(): Promise<void> {
    const { kind, network } = this;
    const files: Record<string, string> = { ...filesOf(kind, network) };
    if (network === "cni") files["/etc/cni/net.d/10-old.conflist"] = networkList(legacyNetworks.cni);
    for (const [path, text] of Object.entries(files)) {
      await mkdir(dirname(this.path(path)), { recursive: true });
      await writeFile(this.path(path), text);
    }
    for (const maker of ["dockershim", "cri-dockerd"] as const)
      await mkdir(this.checkpoints(maker), { recursive: true });
    // This program reads them there, whatever its state directory is.
    const theirs = dirname(criDockerdCheckpoints);
    await symlink(this.path(theirs), theirs);
    this.bed.onClose(() => rm(theirs));
    // Labels have paths of this machine: below the root they lead to the node's.
    await mkdir(dirname(this.path(this.root)), { recursive: true });
    await symlink("/", this.path(this.root));
  }

  get #place() {
    return { bed: this.bed, logs: this.path("/var/log/pods") };
  }

  async #makeLegacy(maker: LegacyProgram, pod: { number: number; isHost: boolean }): Promise<NodePod> {
    const networkMode = this.network === "no-op" ? "default" : "none";
    const place = { ...this.#place, networkMode, checkpoints: this.checkpoints(maker) };
    const made = await makeRecordedPod(maker, pod, place);
    return { ...made, maker, address: pod.isHost ? "" : await this.#addToNetwork(made, maker) };
  }

  async #addToNetwork(pod: MadePod, maker: LegacyProgram): Promise<string> {
    const { network } = this;
    if (network === "no-op") return (await inspectContainer(pod.id))?.NetworkSettings.IPAddress ?? "";
    const address = await addToNetwork(legacyNetworks[network], pod.id, this.path("/var/lib/cni/cache"));
    // Those of cri-dockerd 0.4 never worked with kubenet: iptables-restore refuses what it writes.
    if (network === "kubenet" && maker === "dockershim") {
      for (const port of checkpointOf(pod, maker).data.portMappings ?? [])
        if (port.hostPort > 0) await openHostPort({ id: pod.id, pod: `${pod.name}_default`, address, port });
    }
    return address;
  }

  async #runOwn({ cri }: ShimProcess, pod: { number: number; isHost: boolean }): Promise<NodePod> {
    const { sandbox, container } = requestsOf(pod, this.#place);
    const { pod_sandbox_id: id } = await cri.RunPodSandbox({ config: sandbox });
    const request = { pod_sandbox_id: id, config: container, sandbox_config: sandbox };
    const { container_id } = await cri.CreateContainer(request);
    await cri.StartContainer({ container_id });
    const { status } = await cri.PodSandboxStatus({ pod_sandbox_id: id });
    const { name = "", uid = "" } = sandbox.metadata ?? {};
    return {
      ...pod,
      id,
      name,
      uid,
      containers: [container_id],
      maker: "ours",
      address: status?.network?.ip ?? "",
    };
  }
}
