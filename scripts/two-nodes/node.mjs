/** A node: a Docker Engine, a server of this checkout, a kubelet and, where it is there, kube-proxy. */
import { copyFile, mkdir, writeFile } from "node:fs/promises";
import { ensureBusyboxImage } from "../setup/demo-image.mjs";
import { startDockerd } from "../setup/engine-elsewhere.mjs";
import { request } from "../setup/engine.mjs";
import { builtMain } from "../setup/paths.mjs";
import { addressesOf, familyOf, planOf } from "./addresses.mjs";
import { inside } from "./hosts.mjs";

/**
 * @typedef {import("./addresses.mjs").Family} Family
 * @typedef {import("./control-plane.mjs").ControlPlane} ControlPlane
 * @typedef {import("./hosts.mjs").Host} Host
 * @typedef {"cni" | "kubenet"} Network
 */

export const image = "dockershim.local/busybox:1";
const serverSocket = "/run/dockershim.sock";

/** The kernel settings of a node that runs kube-proxy and routes. */
const settings = {
  ipv4: { forwarding: "net.ipv4.ip_forward=1", bridges: "net.bridge.bridge-nf-call-iptables=1" },
  ipv6: { forwarding: "net.ipv6.conf.all.forwarding=1", bridges: "net.bridge.bridge-nf-call-ip6tables=1" },
};

export class Node {
  /**
   * @param {Host} host
   * @param {ControlPlane} control
   * @param {{ families: readonly Family[], network: Network }} options
   */
  constructor(host, control, { families, network }) {
    this.host = host;
    this.control = control;
    this.families = families;
    this.network = network;
    this.addresses = addressesOf(host.name, families);
  }

  get name() {
    return this.host.name;
  }

  /**
   * Returns when the node is ready.
   * @param {(() => Promise<unknown>)[]} undo
   */
  async start(undo) {
    const { host } = this;
    if (this.network === "cni") await this.#prepareNetwork();
    await startDockerd(host.namespaces, [], undo);
    await ensureBusyboxImage({
      ...{ endpoint: `unix://${host.outside("docker.sock")}`, reference: image, allowDownload: true },
      log: () => undefined,
    });
    await this.#startServer();
    await this.#startKubelet();
    await host.until("ready node", async () => {
      const { spec, status } = await this.control.get("node", this.name);
      const ready = status.conditions.find((/** @type {{ type: string }} */ { type }) => type === "Ready");
      // kubenet has no network before it has the range of its pods.
      return ready.status === "True" && spec.podCIDRs !== undefined ? true : undefined;
    });
    await this.#startProxy();
  }

  /**
   * @returns {Promise<string[]>} of each family
   */
  async podRanges() {
    return (await this.control.get("node", this.name)).spec.podCIDRs;
  }

  /** What a cloud's route table does, or a router. @param {Node} other */
  async routeTo(other) {
    for (const range of await other.podRanges()) {
      const via = other.addresses.find((address) => familyOf(address) === familyOf(range)) ?? "";
      await this.host.run(["ip", `-${familyOf(range).slice(3)}`, "route", "add", range, "via", via]);
    }
  }

  /** What pods have left on this node: containers, addresses, and what the server itself finds. */
  async remains() {
    const address = { socketPath: this.host.outside("docker.sock") };
    const { text } = await request(address, { path: "/containers/json?all=1", deadlineMs: 10_000 });
    const containers = /** @type {{ Names: string[] }[]} */ (JSON.parse(text));
    const files = [
      "/var/lib/cni/networks",
      "-type",
      "f",
      "!",
      "-name",
      "lock",
      "!",
      "-name",
      "last_reserved_ip*",
    ];
    const reserved = await this.host.run(["find", ...files]);
    const doctor = await this.host
      .run([process.execPath, builtMain, "doctor", "network", ...this.#serverFlags])
      .then(
        () => [],
        (/** @type {Error} */ error) => [error.message],
      );
    return [
      ...containers.map(({ Names: [name = ""] }) => `container ${name}`),
      ...reserved.split("\n").filter((path) => path !== ""),
      ...doctor,
    ];
  }

  /** The routed bridge: pods keep their addresses between nodes, so that nothing is masqueraded. */
  async #prepareNetwork() {
    const { host } = this;
    for (const family of this.families) {
      // Before the engine starts: it drops what it does not forward itself when it has to enable forwarding.
      await host.run(["sysctl", "-qw", settings[family].forwarding]);
      await host.run(["sysctl", "-qw", settings[family].bridges]);
    }
    const list = {
      ...{ cniVersion: "1.0.0", name: "pods" },
      plugins: [
        {
          ...{ type: "bridge", bridge: "cni0", isGateway: true, hairpinMode: true },
          capabilities: { ipRanges: true },
          ipam: { type: "host-local", routes: this.families.map((family) => ({ dst: planOf(family).all })) },
        },
        { type: "portmap", capabilities: { portMappings: true } },
      ],
    };
    await mkdir(host.outside("net.d"), { recursive: true });
    await writeFile(host.outside("net.d/10-pods.conflist"), JSON.stringify(list));
  }

  get #serverFlags() {
    const pods = this.families.map((family) => planOf(family).pods).join(",");
    return [
      ...[`--docker-endpoint=unix://${inside("docker.sock")}`, `--network-plugin=${this.network}`],
      ...(this.network === "cni" ? [`--cni-conf-dir=${inside("net.d")}`] : [`--non-masquerade-cidr=${pods}`]),
    ];
  }

  async #startServer() {
    this.host.start("dockershim", [
      ...[process.execPath, builtMain, "serve", `--container-runtime-endpoint=unix://${serverSocket}`],
      ...this.#serverFlags,
    ]);
    // A kubelet ends when nobody answers.
    await this.host.until("server", async () => {
      await this.host.run(["test", "-S", serverSocket]);
      return true;
    });
  }

  async #startKubelet() {
    const { host } = this;
    const subject = `/O=system:nodes/CN=system:node:${this.name}`;
    await writeFile(host.outside("kubeconfig"), await this.control.kubeconfigOf(this.name, subject));
    await copyFile(this.control.host.outside("pki/ca.pem"), host.outside("ca.pem"));
    const configuration = {
      ...{ apiVersion: "kubelet.config.k8s.io/v1beta1", kind: "KubeletConfiguration" },
      ...{ containerRuntimeEndpoint: `unix://${serverSocket}`, failCgroupV1: false, failSwapOn: false },
      authentication: { x509: { clientCAFile: inside("ca.pem") }, anonymous: { enabled: false } },
      // Both kubelets have the cgroups of one machine, where a pod's would have the same name for both.
      ...{ cgroupsPerQOS: false, enforceNodeAllocatable: ["none"] },
      // The disk is that of the machine, which is none of the pods' business here.
      ...{ evictionHard: { "nodefs.available": "0%" }, imageGCHighThresholdPercent: 100 },
      volumePluginDir: inside("volume-plugins"),
      nodeStatusUpdateFrequency: "2s",
    };
    await writeFile(host.outside("kubelet.json"), JSON.stringify(configuration));
    host.start("kubelet", [
      ...[this.control.programs["kubelet"] ?? "kubelet", `--config=${inside("kubelet.json")}`],
      ...[`--kubeconfig=${inside("kubeconfig")}`, `--hostname-override=${this.name}`],
      ...[`--node-ip=${this.addresses.join(",")}`, `--cert-dir=${inside("certificates")}`],
    ]);
  }

  async #startProxy() {
    const program = this.control.programs["kube-proxy"];
    if (program === undefined) return;
    const configuration = await this.control.kubeconfigOf(`${this.name}-proxy`, "/CN=system:kube-proxy");
    await writeFile(this.host.outside("proxy.kubeconfig"), configuration);
    this.host.start("kube-proxy", [
      ...[program, `--kubeconfig=${inside("proxy.kubeconfig")}`, `--hostname-override=${this.name}`],
      `--cluster-cidr=${this.families.map((family) => planOf(family).pods).join(",")}`,
      // Settings of the whole machine.
      ...["--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0s"],
      "--conntrack-tcp-timeout-close-wait=0s",
    ]);
  }
}
