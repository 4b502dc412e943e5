/** Port mappings of a pod: the shim's own form, and Docker's. */
import { unreachable } from "../../lib/errors.js";
import { Protocol, type PortMapping as CriPortMapping } from "../../domain/cri.js";
import type { HostConfig, CreateBody, PortBinding } from "../../domain/create-body.js";
import type { PortMapping, PortProtocol } from "../../domain/sandbox.js";

/** All mappings of the request, in order, also those without a host port: the checkpoint keeps them all. */
export function toPortMappings(mappings: readonly CriPortMapping[]): readonly PortMapping[] {
  return mappings.map((mapping) => ({
    protocol: protocolName(mapping.protocol),
    containerPort: mapping.container_port,
    hostPort: mapping.host_port,
    hostIp: mapping.host_ip,
  }));
}

/** Docker's two fields for the mappings that have a host port; both absent when none has. */
export function portBindings(
  mappings: readonly PortMapping[],
): Pick<CreateBody, "ExposedPorts"> & Pick<HostConfig, "PortBindings"> {
  const bindings: Record<string, PortBinding[]> = {};
  for (const { protocol, containerPort, hostPort, hostIp } of mappings) {
    if (hostPort === 0) continue;
    const key = `${containerPort}/${protocol}`;
    (bindings[key] ??= []).push({ HostIp: hostIp, HostPort: String(hostPort) });
  }
  const keys = Object.keys(bindings);
  if (keys.length === 0) return {};
  return { ExposedPorts: Object.fromEntries(keys.map((key) => [key, {}])), PortBindings: bindings };
}

function protocolName(protocol: Protocol): PortProtocol {
  switch (protocol) {
    case Protocol.TCP:
      return "tcp";
    case Protocol.UDP:
      return "udp";
    case Protocol.SCTP:
      return "sctp";
    default:
      return unreachable(protocol);
  }
}
