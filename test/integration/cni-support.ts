/** A node with real CNI plugins in namespaces of its own, and everything on it that a pod can leave behind. */
import { chmod, mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { CniNetworkPlugin, CniTimeouts } from "../../src/network/cni/cni-plugin.js";
import { createCniParts, createCniPlugin, type CniParts } from "../../src/network/cni/create-cni-plugin.js";
import type { PodNetworkRequest } from "../../src/shim/ports/network-plugin.js";
import { recordingLog } from "../fakes/recording-log.js";
import { pluginDirs } from "../support/isolated-engine.js";
import { command, type TestPod } from "./kubenet-support.js";

export const never = new AbortController().signal;

/** The name of the plugin that fails when it is told to. */
export const faultyPlugin = "faulty-plugin";
export type PluginFault = "fail" | "garbage";

export class CniNode implements AsyncDisposable {
  readonly confDir: string;
  readonly addressDir: string;
  readonly log = recordingLog();
  plugin!: CniNetworkPlugin;
  parts!: CniParts;

  private constructor(readonly directory: string) {
    this.confDir = join(directory, "net.d");
    this.addressDir = join(directory, "addresses");
  }

  /** With all plugins in the list and the faulty one at the place `faultyAt`, if that is given. */
  static async create(faultyAt?: number, timeouts: Partial<CniTimeouts> = {}): Promise<CniNode> {
    const node = new CniNode(await mkdtemp(join(tmpdir(), "cni-node-")));
    await mkdir(node.confDir);
    await mkdir(join(node.directory, "bin"));
    const script = join(node.directory, "bin", faultyPlugin);
    await writeFile(script, faultyPluginScript(node.directory));
    await chmod(script, 0o755);
    await node.configure(faultyAt);
    await node.restart(timeouts);
    return node;
  }

  /** Another shim on the same files, as after a restart. */
  async restart(timeouts: Partial<CniTimeouts> = {}): Promise<void> {
    if ((this.plugin as CniNetworkPlugin | undefined) !== undefined) await this.plugin.stop();
    const options = {
      reason: "test",
      confDir: this.confDir,
      binDirs: [join(this.directory, "bin"), ...pluginDirs],
      cacheDir: join(this.directory, "cache"),
      legacyResultDirs: [],
      log: this.log,
      timeouts,
    };
    this.parts = createCniParts(options);
    this.plugin = createCniPlugin(options, this.parts);
    await this.plugin.start(never);
  }

  async configure(faultyAt?: number): Promise<void> {
    const plugins: object[] = [
      {
        type: "bridge",
        bridge: "cnitest0",
        isGateway: true,
        ipMasq: true,
        hairpinMode: true,
        ipam: {
          type: "host-local",
          dataDir: this.addressDir,
          ranges: [[{ subnet: "10.181.0.0/24" }], [{ subnet: "fd00:181::/64" }]],
          routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }],
        },
      },
      { type: "portmap", capabilities: { portMappings: true } },
      { type: "bandwidth", capabilities: { bandwidth: true } },
      { type: "firewall", backend: "iptables" },
      { type: "tuning", sysctl: { "net.core.somaxconn": "500" } },
    ];
    if (faultyAt !== undefined) plugins.splice(faultyAt, 0, { type: faultyPlugin });
    const list = { cniVersion: "1.0.0", name: "chain", plugins };
    await writeFile(join(this.confDir, "10-chain.conflist"), JSON.stringify(list));
  }

  async emptyConfDir(): Promise<void> {
    await rm(join(this.confDir, "10-chain.conflist"));
  }

  /** The faulty plugin has this fault at each `commandName` until `clearFaults`. */
  injectFault(commandName: "ADD" | "DEL", fault: PluginFault): Promise<void> {
    return writeFile(join(this.directory, commandName), fault);
  }

  async clearFaults(): Promise<void> {
    for (const name of ["ADD", "DEL"]) await rm(join(this.directory, name), { force: true });
  }

  /** Every interface, rule, chain, address and cache file, but for counters and the name of the next free address. */
  async holdings(): Promise<readonly string[]> {
    const links = JSON.parse(await command("ip", "-json", "link", "show")) as { ifname: string }[];
    const lines = links.map(({ ifname }) => `link ${ifname}`);
    for (const program of ["iptables-save", "ip6tables-save"]) {
      for (const line of (await command(program)).split("\n")) {
        if (/^[:-]/.test(line)) lines.push(`${program} ${line.replace(/ \[\d+:\d+\]/, "")}`);
      }
    }
    const files = async (directory: string): Promise<readonly string[]> =>
      (await readdir(directory).catch(() => [])).filter((name) => !/^(?:lock$|last_reserved_ip)/.test(name));
    lines.push(...(await files(join(this.addressDir, "chain"))).map((name) => `address ${name}`));
    lines.push(...(await files(join(this.directory, "cache", "results"))).map((name) => `cached ${name}`));
    return lines.sort();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.plugin.stop();
    await rm(this.directory, { recursive: true, force: true });
  }
}

/** With two host ports and both bandwidths, so that every plugin of the list has something to do and to undo. */
export function requestFor(pod: TestPod, hostPort = 20_080): PodNetworkRequest {
  const { namespace, name, uid, sandboxId, netns } = pod;
  return {
    ...{ namespace, name, uid, sandboxId, netns },
    annotations: { "kubernetes.io/ingress-bandwidth": "10M", "kubernetes.io/egress-bandwidth": "20M" },
    portMappings: [
      { protocol: "tcp", containerPort: 80, hostPort, hostIp: "" },
      { protocol: "udp", containerPort: 53, hostPort: hostPort + 1, hostIp: "" },
    ],
  };
}

/** Passes on the result of the plugin before it, and at the first place makes one without addresses. */
function faultyPluginScript(directory: string): string {
  return `#!${process.execPath}
const fs = require("fs");
const input = JSON.parse(fs.readFileSync(0, "utf8"));
const command = process.env.CNI_COMMAND;
if (command === "VERSION") {
  console.log(JSON.stringify({ cniVersion: "1.0.0", supportedVersions: ["0.4.0", "1.0.0"] }));
  process.exit(0);
}
let fault = "";
try { fault = fs.readFileSync(${JSON.stringify(directory)} + "/" + command, "utf8"); } catch {}
if (fault === "fail") {
  console.log(JSON.stringify({ code: 100, msg: "fault" }));
  process.exit(1);
} else if (fault === "garbage") {
  console.log("garbage");
  process.exit(command === "ADD" ? 0 : 1);
} else if (command === "ADD") console.log(JSON.stringify(input.prevResult ?? { cniVersion: "1.0.0" }));
`;
}
