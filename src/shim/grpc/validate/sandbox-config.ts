/** The pod's configuration, as RunPodSandbox and CreateContainer carry it. */
import { Protocol, type DNSConfig, type PodSandboxConfig, type PortMapping } from "../../../domain/cri.js";
import type { SandboxConfig } from "../../../domain/requests.js";
import { invalidField } from "../../../domain/field-errors.js";
import { climbs } from "../../plan/paths.js";
import { podResources } from "../../plan/resources.js";
import { absolutePath, at, enumValue, ipAddress, noNul, present, withoutWindows, word } from "./fields.js";
import { labels, podMetadata } from "./metadata.js";
import { sandboxSecurityContext } from "./security-context.js";

/** The kernel's limit; kubelets cut names to 63, but not fully qualified ones (setHostnameAsFQDN). */
const maxHostnameCharacters = 64;
const maxPort = 65_535;

export function sandboxConfig(field: string, given: PodSandboxConfig | null): SandboxConfig {
  const config = present(field, given);
  const metadata = podMetadata(`${field}.metadata`, config.metadata);
  hostname(`${field}.hostname`, config.hostname);
  if (config.log_directory !== "") {
    absolutePath(`${field}.log_directory`, config.log_directory);
    if (climbs(config.log_directory)) {
      throw invalidField(`${field}.log_directory`, 'has a ".." part', config.log_directory);
    }
  }
  if (config.dns_config !== null) dnsConfig(`${field}.dns_config`, config.dns_config);
  config.port_mappings.forEach((mapping, index) => {
    portMapping(at(`${field}.port_mappings`, index), mapping);
  });
  labels(`${field}.labels`, config.labels);
  withoutWindows(`${field}.windows`, config.windows);
  const { linux } = config;
  if (linux !== null) {
    noNul(`${field}.linux.cgroup_parent`, linux.cgroup_parent);
    sysctls(`${field}.linux.sysctls`, linux.sysctls);
    podResources(linux, `${field}.linux.`); // Not too large.
    if (linux.security_context !== null) {
      sandboxSecurityContext(`${field}.linux.security_context`, linux.security_context);
    }
  }
  return { ...config, metadata };
}

function hostname(field: string, name: string): void {
  if (name === "") return;
  word(field, name);
  if (name.length > maxHostnameCharacters) {
    throw invalidField(field, `is longer than ${maxHostnameCharacters} characters`, name);
  }
}

/** Each entry becomes a word of resolv.conf: one with a line break would write lines of its own. */
function dnsConfig(field: string, dns: DNSConfig): void {
  for (const name of ["servers", "searches", "options"] as const) {
    dns[name].forEach((entry, index) => {
      word(at(`${field}.${name}`, index), entry);
    });
  }
}

function portMapping(field: string, mapping: PortMapping): void {
  enumValue(`${field}.protocol`, mapping.protocol, Protocol);
  for (const name of ["container_port", "host_port"] as const) {
    if (mapping[name] < 0 || mapping[name] > maxPort) {
      throw invalidField(`${field}.${name}`, `must be in the range 0 to ${maxPort}`, String(mapping[name]));
    }
  }
  if (mapping.host_ip !== "") ipAddress(`${field}.host_ip`, mapping.host_ip);
}

function sysctls(field: string, given: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries(given)) {
    if (!/^[A-Za-z0-9_-]+([./][A-Za-z0-9_-]+)*$/.test(name)) {
      throw invalidField(field, "is not the name of a sysctl", name);
    }
    noNul(`${field}[${name}]`, value);
  }
}
