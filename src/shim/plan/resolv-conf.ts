import type { DNSConfig } from "../domain/cri.js";

/**
 * Content of the pod's resolv.conf, in dockershim's format: a line for each server, then one `search` and one
 * `options` line. Undefined when the request asks for nothing: then the engine's own file stays.
 */
export function resolvConfContent(dns: DNSConfig | null): string | undefined {
  if (dns === null) return undefined;
  const lines = dns.servers.map((server) => `nameserver ${server}`);
  if (dns.searches.length > 0) lines.push(`search ${dns.searches.join(" ")}`);
  if (dns.options.length > 0) lines.push(`options ${dns.options.join(" ")}`);
  return lines.length === 0 ? undefined : `${lines.join("\n")}\n`;
}
