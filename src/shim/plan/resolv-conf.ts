import { defined, unlessEmpty, type HostConfig } from "../../domain/create-body.js";
import type { DNSConfig } from "../../domain/cri.js";

/**
 * Content of the pod's resolv.conf, in dockershim's format: a line for each server, then one `search` and one
 * `options` line. Undefined without a message: then the engine's own file stays. A message without entries is an
 * empty file: kubelets send it where the node has no name servers, and Docker would add public ones.
 */
export function resolvConfContent(dns: DNSConfig | null): string | undefined {
  if (dns === null) return undefined;
  const lines = dns.servers.map((server) => `nameserver ${server}`);
  if (dns.searches.length > 0) lines.push(`search ${dns.searches.join(" ")}`);
  if (dns.options.length > 0) lines.push(`options ${dns.options.join(" ")}`);
  return lines.map((line) => `${line}\n`).join("");
}

/**
 * The same for engines whose files are out of reach. The engine takes an empty list for none, so an empty
 * message names what the C library does without servers: it asks the pod itself.
 */
export function dnsFields(dns: DNSConfig | null): Pick<HostConfig, "Dns" | "DnsSearch" | "DnsOptions"> {
  if (resolvConfContent(dns) === "") return { Dns: ["127.0.0.1"], DnsSearch: ["."] };
  return defined({
    Dns: unlessEmpty(dns?.servers ?? []),
    DnsSearch: unlessEmpty(dns?.searches ?? []),
    DnsOptions: unlessEmpty(dns?.options ?? []),
  });
}
