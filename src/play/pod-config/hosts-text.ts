/** The /etc/hosts of a pod's containers. Pure. */
import type { PodSpec } from "../manifests/pod-schema.js";
import type { Manifest } from "../manifests/read-manifests.js";
import { type NodeFacts, podDomain, podHostname } from "./cri-config.js";
import type { HostsEntry } from "./pod-services.js";

/** What is written is readable by all users of the containers. */
export const hostsMode = 0o644;

export function hostsText(
  manifest: Manifest,
  ips: readonly string[],
  services: readonly HostsEntry[],
  node: Pick<NodeFacts, "hostsFile">,
): string {
  const names = { hostname: podHostname(manifest), domain: podDomain(manifest) };
  return hostsFile(manifest.pod.spec, { ...names, ips }, node.hostsFile, services);
}

const loopback = [
  "127.0.0.1\tlocalhost",
  "::1\tlocalhost ip6-localhost ip6-loopback",
  "fe00::0\tip6-localnet",
  "fe00::0\tip6-mcastprefix",
  "fe00::1\tip6-allnodes",
  "fe00::2\tip6-allrouters",
];

/** The node's file, or one with the pod's addresses and name; then names of Services that are not in it. */
export function hostsFile(
  spec: PodSpec,
  pod: { readonly hostname: string; readonly domain: string; readonly ips: readonly string[] },
  nodeHostsFile: string,
  services: readonly HostsEntry[] = [],
): string {
  const names = pod.domain === "" ? pod.hostname : `${pod.hostname}.${pod.domain}\t${pod.hostname}`;
  const made = ["# Written by dockershim play", ...loopback, ...pod.ips.map((ip) => `${ip}\t${names}`)];
  const base = spec.hostNetwork === true ? [nodeHostsFile.trimEnd()] : made;
  const aliases = (spec.hostAliases ?? []).map(({ ip, hostnames = [] }) => [ip, ...hostnames].join("\t"));
  const added = aliases.length === 0 ? [] : ["", "# hostAliases", ...aliases];
  const own = [...base, ...added];
  const lines = serviceLines(services, namesIn(own));
  const last = lines.length === 0 ? [] : ["", "# Services", ...lines];
  return `${[...own, ...last].join("\n")}\n`;
}

function namesIn(lines: readonly string[]): ReadonlySet<string> {
  const words = lines.flatMap((text) => text.split("\n")).map((line) => line.replace(/#.*/, "").trim());
  return new Set(words.flatMap((line) => line.split(/\s+/).slice(1)));
}

/** musl cuts lines at 511 bytes. */
const hostsLineLimit = 500;

function serviceLines(services: readonly HostsEntry[], taken: ReadonlySet<string>): readonly string[] {
  return services.flatMap(({ address, names }) => {
    const free = names.filter((name) => !taken.has(name));
    const line = [address, ...free].join("\t");
    if (line.length > hostsLineLimit) return free.map((name) => `${address}\t${name}`);
    return free.length === 0 ? [] : [line];
  });
}
