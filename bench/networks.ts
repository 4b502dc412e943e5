/**
 * How much of the time that a pod network takes is time of its plugins: what is left of a set-up and a tear-down is the
 * shim's own. Pods are set up and torn down ten at a time, each with a lock of its own, by the real plugins in
 * namespaces of their own. The pods are network namespaces: no engine takes part.
 */
import { randomBytes } from "node:crypto";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createCniParts, createCniPlugin } from "../src/network/cni/create-cni-plugin.js";
import { exampleConflist } from "../src/network/example/example-conflist.js";
import type { PluginRun } from "../src/network/libcni/invoke-plugin.js";
import { createKubenetPlugin } from "../src/network/kubenet/create-kubenet-plugin.js";
import { HostIptables } from "../src/network/iptables/host-iptables.js";
import { runCommand, type RunCommand } from "../src/network/iptables/run-command.js";
import { LockedNetworkPlugin } from "../src/network/locked-plugin.js";
import { silentLogger } from "../src/lib/log.js";
import type { NetworkPlugin, PodNetworkRequest } from "../src/shim/ports/network-plugin.js";
import { command } from "../test/integration/kubenet-support.js";
import { isIsolated, pluginDirs, runIsolated } from "../test/support/isolated-engine.js";
import { inParallel } from "./measure.js";

/** What one kind of network took, summed over all pods. */
export interface NetworkShare {
  readonly plugin: string;
  readonly pods: number;
  readonly pluginRuns: number;
  readonly insidePluginsMs: number;
  /** What kubenet runs beside its plugins: iptables, sysctl. */
  readonly insideProgramsMs: number;
  readonly totalMs: number;
  readonly wallMs: number;
  /** `insidePluginsMs` ÷ `totalMs`: at least 0.9 is aimed at. */
  readonly share: number;
  /** The same with the other programs. */
  readonly shareWithPrograms: number;
}

const podCount = 100;
const width = 10;
const podCidrs = ["10.180.0.0/24", "fd00:180::/64"];
const never = new AbortController().signal;

/** The shares of both plugins, measured in a process of its own. Throws where namespaces or plugins are missing. */
export async function benchNetworks(): Promise<readonly NetworkShare[]> {
  const output = await runIsolated(import.meta.url);
  return JSON.parse(output.trim().split("\n").at(-1) ?? "") as NetworkShare[];
}

export function formatNetworks(shares: readonly NetworkShare[]): string {
  const rows = shares.map((one) => {
    const { plugin, pods, pluginRuns, insidePluginsMs, totalMs, wallMs } = one;
    return [
      `${plugin.padEnd(8)} ${String(pods)} pods, ${String(width)} at a time:`,
      `${(insidePluginsMs / pods).toFixed(0)} of ${(totalMs / pods).toFixed(0)} ms a pod`,
      `inside ${(pluginRuns / pods).toFixed(0)} plugin runs, share ${one.share.toFixed(2)}`,
      `(${one.shareWithPrograms.toFixed(2)} with iptables and sysctl), ${(wallMs / 1000).toFixed(1)} s in all`,
    ].join(" ");
  });
  return `set-up and tear-down of pod networks\n${rows.join("\n")}\n`;
}

/** A network namespace as a pause container would have it, and an id as Docker would give. */
interface TestPod extends AsyncDisposable {
  readonly sandboxId: string;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly netns: string;
}

async function makePod(name: string): Promise<TestPod> {
  const sandboxId = randomBytes(32).toString("hex");
  const label = `pod-${sandboxId.slice(0, 12)}`;
  await command("ip", "netns", "add", label);
  // As Docker makes namespaces without a network.
  await command("ip", "netns", "exec", label, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1");
  return {
    ...{ sandboxId, name, namespace: "default", uid: `uid-${name}`, netns: `/run/netns/${label}` },
    [Symbol.asyncDispose]: async () => {
      await command("ip", "netns", "delete", label);
    },
  };
}

/** What was run for the pods that are measured. */
class Runs {
  plugins: PluginRun[] = [];
  programsMs = 0;

  readonly observe = (run: PluginRun): void => void this.plugins.push(run);

  readonly run: RunCommand = async (...command) => {
    const begin = performance.now();
    try {
      return await runCommand(...command);
    } finally {
      this.programsMs += performance.now() - begin;
    }
  };

  forget(): void {
    this.plugins = [];
    this.programsMs = 0;
  }
}

async function measure(plugin: NetworkPlugin, runs: Runs): Promise<NetworkShare> {
  const locked = new LockedNetworkPlugin(plugin);
  await locked.start(never);
  await locked.engineFound({ local: true });
  const requestOf = (
    pod: Pick<PodNetworkRequest, "sandboxId" | "netns">,
    index: number,
  ): PodNetworkRequest => ({
    ...{ namespace: "default", name: `pod-${String(index)}`, uid: `uid-${String(index)}` },
    ...{ sandboxId: pod.sandboxId, netns: pod.netns },
    annotations: { "kubernetes.io/ingress-bandwidth": "10M", "kubernetes.io/egress-bandwidth": "10M" },
    portMappings: [{ protocol: "tcp", containerPort: 80, hostPort: 20_000 + index, hostIp: "" }],
  });
  const cycle = async (index: number): Promise<number> => {
    await using pod = await makePod(`pod-${String(index)}`);
    const { sandboxId, netns } = pod;
    const request = requestOf({ sandboxId, netns }, index);
    const begin = performance.now();
    await locked.setUpPod(request, never);
    await locked.tearDownPod(request, never);
    return performance.now() - begin;
  };
  // The first pod makes the bridge and the chains of all.
  await cycle(0);
  runs.forget();
  let totalMs = 0;
  const begin = performance.now();
  await inParallel(podCount, width, async (index) => {
    const tookMs = await cycle(index + 1);
    totalMs += tookMs;
  });
  const wallMs = performance.now() - begin;
  await locked.stop();
  const insidePluginsMs = runs.plugins.reduce((sum, { durationMs }) => sum + durationMs, 0);
  const insideProgramsMs = runs.programsMs;
  return {
    ...{ plugin: plugin.name, pods: podCount, pluginRuns: runs.plugins.length },
    ...{ insidePluginsMs, insideProgramsMs, totalMs, wallMs },
    share: insidePluginsMs / totalMs,
    shareWithPrograms: (insidePluginsMs + insideProgramsMs) / totalMs,
  };
}

async function measureAll(): Promise<readonly NetworkShare[]> {
  await command("ip", "link", "set", "lo", "up");
  const directory = await mkdtemp(join(tmpdir(), "bench-networks-"));
  try {
    const confDir = join(directory, "net.d");
    await mkdir(confDir);
    await writeFile(join(confDir, "10-bench.conflist"), exampleConflist({ podCidrs }));
    const runs = new Runs();
    const options = {
      ...{ reason: "bench", log: silentLogger(), binDirs: pluginDirs, cacheDir: join(directory, "cache") },
      observe: runs.observe,
    };
    const cniOptions = { ...options, confDir };
    const cni = await measure(createCniPlugin(cniOptions, createCniParts(cniOptions)), runs);
    const kubenetOptions = {
      ...options,
      ...{ podCidrs: ["10.182.0.0/24", "fd00:182::/64"], mtuBytes: 0, nonMasqueradeCidrs: ["10.0.0.0/8"] },
      hairpinMode: "hairpin-veth" as const,
      run: runs.run,
      iptables: new HostIptables({ mode: "auto", log: options.log, run: runs.run }),
    };
    const kubenet = await measure(createKubenetPlugin(kubenetOptions), runs);
    return [cni, kubenet];
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

if (isIsolated()) process.stdout.write(`${JSON.stringify(await measureAll())}\n`);
