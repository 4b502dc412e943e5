/** What lists of the standard plugins have in common: addresses by host-local, and the plugins behind the bridge. */
import type { PodSubnet } from "./kubenet/pod-subnets.js";

export const requiredPlugins = ["bridge", "host-local"] as const;

/** In the order of the list. */
export const optionalPlugins = ["portmap", "bandwidth", "firewall"] as const;
export type OptionalPlugin = (typeof optionalPlugins)[number];

const configurations = {
  portmap: { type: "portmap", capabilities: { portMappings: true }, snat: true },
  bandwidth: { type: "bandwidth", capabilities: { bandwidth: true } },
  firewall: { type: "firewall" },
} as const;

/**
 * The plugins of a list: a bridge with the members `bridge` and an address of each subnet, then those of `optional`.
 * Plugins with capabilities do nothing for pods that do not ask for them.
 */
export function bridgePlugins(
  bridge: Readonly<Record<string, unknown>>,
  subnets: readonly PodSubnet[],
  optional: readonly OptionalPlugin[],
): readonly object[] {
  const ipam = {
    type: "host-local",
    ranges: subnets.map(({ cidr }) => [{ subnet: cidr }]),
    routes: subnets.map(({ family }) => ({ dst: family === "ipv4" ? "0.0.0.0/0" : "::/0" })),
  };
  return [
    { type: "bridge", ...bridge, ipam },
    ...optionalPlugins.filter((type) => optional.includes(type)).map((type) => configurations[type]),
  ];
}
