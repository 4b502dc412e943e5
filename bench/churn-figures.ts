/** What a server and its node hold, as numbers that should not grow. */
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { dockerJson } from "../test/support/docker.js";
import { parsePrometheusText } from "../test/support/prometheus-text.js";
import type { FaultyNetwork } from "./churn-faults.js";
import { descendantsOf, descriptorsOf, residentMebibytesOf } from "./process-usage.js";

/** By title; NaN where this node has no such thing. */
export type Figures = Readonly<Record<string, number>>;

export interface Places {
  readonly stateDirectory: string;
  /** Undefined without pod networks of the bench's own. */
  readonly network: FaultyNetwork | undefined;
}

/** Directories of the state directory in which each file belongs to a pod or a container. */
const ownedDirectories = ["sandbox", "pods", "containers", "logs", "quarantine"];
const cgroups = "/sys/fs/cgroup";
const bytesPerMebibyte = 1024 * 1024;

export async function figuresOfServer(pid: number, metricsSocket: string): Promise<Figures> {
  const scrape = parsePrometheusText(await get(metricsSocket, "/metrics"));
  const value = (name: string): number => scrape.value(name) ?? NaN;
  const sumOf = (name: string, wanted: (type: string) => boolean = () => true): number =>
    scrape.samples
      .filter((sample) => sample.name === name && wanted(sample.labels["type"] ?? ""))
      .reduce((sum, sample) => sum + sample.value, 0);
  const isTimer = (type: string): boolean => type === "Timeout" || type === "Immediate";
  const helpers = descendantsOf(pid);
  return {
    "resident memory, MiB": residentMebibytesOf(pid),
    "heap in use, MiB": value("nodejs_heap_size_used_bytes") / bytesPerMebibyte,
    "buffers outside of the heap, MiB": value("nodejs_external_memory_bytes") / bytesPerMebibyte,
    "open files": descriptorsOf(pid),
    "of them kept for statistics": value("dockershim_stats_kept_files"),
    timers: sumOf("nodejs_active_resources", isTimer),
    "sockets, pipes and other resources": sumOf("nodejs_active_resources", (type) => !isTimer(type)),
    "pending calls of the CRI": value("dockershim_cri_requests_under_way"),
    "pending requests of Node.js": value("nodejs_active_requests_total"),
    "logs being written": sumOf("dockershim_container_logs"),
    "processes below the server": helpers.length,
    "their resident memory, MiB": helpers.reduce((sum, helper) => sum + residentMebibytesOf(helper), 0),
    "their open files": helpers.reduce((sum, helper) => sum + descriptorsOf(helper), 0),
  };
}

export async function figuresOfNode({ stateDirectory, network }: Places): Promise<Figures> {
  const containers = (await dockerJson("GET", "/containers/json?all=1")) as readonly unknown[];
  return {
    "containers of the engine": containers.length,
    ...Object.fromEntries(
      ownedDirectories.map((name) => [`files in ${name}/`, entriesOf(join(stateDirectory, name)).length]),
    ),
    "CNI results": network === undefined ? NaN : entriesOf(join(network.results, "results")).length,
    "addresses of pods": network === undefined ? NaN : addressesIn(network.addresses),
    "network namespaces": entriesOf("/run/docker/netns").length,
    "virtual devices": entriesOf("/sys/class/net").filter((name) => name.startsWith("veth")).length,
    "rules of iptables": linesOf("iptables-save"),
    mounts: readFileSync("/proc/self/mountinfo", "latin1").split("\n").length - 1,
    "cgroups of containers": podCgroups(),
    "processes of the node": entriesOf("/proc").filter((name) => /^\d+$/.test(name)).length,
  };
}

function entriesOf(directory: string): readonly string[] {
  try {
    return readdirSync(directory);
  } catch {
    return [];
  }
}

/** host-local has a file for each, and some of its own. */
function addressesIn(directory: string): number {
  return entriesOf(directory)
    .flatMap((network) => entriesOf(join(directory, network)))
    .filter((name) => /^[\d.]+$/.test(name)).length;
}

function podCgroups(): number {
  const parent = "kubepods-bench";
  const hierarchies = ["", "memory"].map((name) => join(cgroups, name, parent));
  return hierarchies
    .flatMap((all) => entriesOf(all).flatMap((pod) => entriesOf(join(all, pod))))
    .filter((name) => /^[\da-f]{64}$/.test(name)).length;
}

function linesOf(program: string): number {
  try {
    // The first and last lines have the time.
    return execFileSync(program, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] })
      .split("\n")
      .filter((line) => line.startsWith("-A")).length;
  } catch {
    return NaN;
  }
}

function get(socketPath: string, path: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const outgoing = request({ socketPath, path }, (incoming) => void text(incoming).then(resolve, reject));
    outgoing.on("error", reject);
    outgoing.end();
  });
}
