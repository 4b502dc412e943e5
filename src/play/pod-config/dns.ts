/** The resolv.conf of a pod, by dnsPolicy and dnsConfig. Pure. */
import type { PodSpec } from "../manifests/pod-schema.js";

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
