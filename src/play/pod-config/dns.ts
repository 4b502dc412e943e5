/** The resolv.conf of a pod, by dnsPolicy and dnsConfig, and the /etc/hosts of its containers. */
import type { PodSpec } from "../manifests/pod-schema.js";
import type { HostsEntry } from "./pod-services.js";

export interface DnsConfig {
  readonly servers: readonly string[];
  readonly searches: readonly string[];
  readonly options: readonly string[];
}

/** The C library reads at most three. */
const maxServers = 3;

/** The pod's DNS settings. Null where the engine's own count: the node's are unknown, the pod has none. */
export function podDns(spec: PodSpec, node: DnsConfig | undefined): DnsConfig | null {
  const none = { servers: [], searches: [], options: [] };
  const base = spec.dnsPolicy === "None" ? none : (node ?? none);
  const { nameservers = [], searches = [], options = [] } = spec.dnsConfig ?? {};
  const own = options.map(({ name, value }) =>
    value === undefined || value === "" ? name : `${name}:${value}`,
  );
  const overridden = new Set(options.map(({ name }) => name));
  const dns = {
    servers: [...new Set([...base.servers, ...nameservers])].slice(0, maxServers),
    searches: [...new Set([...base.searches, ...searches])],
    options: [...base.options.filter((option) => !overridden.has(option.split(":")[0] ?? "")), ...own],
  };
  const isEmpty = [dns.servers, dns.searches, dns.options].every((list) => list.length === 0);
  return node === undefined && isEmpty ? null : dns;
}

/** Reads a resolv.conf; of several `search` lines the last one counts. */
export function parseResolvConf(text: string): DnsConfig {
  const servers: string[] = [];
  let searches: readonly string[] = [];
  const options: string[] = [];
  for (const line of text.split("\n")) {
    const [keyword, ...values] = line
      .replace(/[#;].*$/, "")
      .split(/\s+/)
      .filter((word) => word !== "");
    if (keyword === "nameserver" && values[0] !== undefined) servers.push(values[0]);
    if (keyword === "search") searches = values;
    if (keyword === "options") options.push(...values);
  }
  return { servers, searches, options };
}

/** Whether all servers have loopback addresses of the node, which pods cannot reach. */
export function isLoopbackOnly({ servers }: DnsConfig): boolean {
  return servers.length > 0 && servers.every((server) => server.startsWith("127.") || server === "::1");
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
