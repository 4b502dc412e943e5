/** The /etc/hosts of a pod's containers, which the kubelet too writes and not the runtime. */
import type { PodSpec } from "./honoured-fields.js";

const loopback = [
  "127.0.0.1\tlocalhost",
  "::1\tlocalhost ip6-localhost ip6-loopback",
  "fe00::0\tip6-localnet",
  "fe00::0\tip6-mcastprefix",
  "fe00::1\tip6-allnodes",
  "fe00::2\tip6-allrouters",
];

/** On the host network the pod has the node's file, else one with the pod's own addresses and name. */
export function hostsFile(
  spec: PodSpec,
  pod: { readonly hostname: string; readonly ips: readonly string[] },
  nodeHostsFile: string,
): string {
  const own = ["# Written by dockershim play", ...loopback, ...pod.ips.map((ip) => `${ip}\t${pod.hostname}`)];
  const base = spec.hostNetwork === true ? [nodeHostsFile.trimEnd()] : own;
  const aliases = (spec.hostAliases ?? []).map(({ ip, hostnames = [] }) => [ip, ...hostnames].join("\t"));
  const added = aliases.length === 0 ? [] : ["", "# hostAliases", ...aliases];
  return `${[...base, ...added].join("\n")}\n`;
}
