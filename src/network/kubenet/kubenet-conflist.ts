/** The part of lists with the bridge plugin that the example has, too, and the list of kubenet. */
import type { PodSubnet } from "../pod-cidrs.js";

export const requiredPlugins = ["bridge", "host-local"] as const;

/** In the order of the list. */
export const optionalPlugins = ["portmap", "bandwidth", "firewall"] as const;
export type OptionalPlugin = (typeof optionalPlugins)[number];

const configurations = {
  portmap: { type: "portmap", capabilities: { portMappings: true }, snat: true },
  bandwidth: { type: "bandwidth", capabilities: { bandwidth: true } },
  firewall: { type: "firewall" },
} as const;

/** A bridge with the members `bridge` and an address of each subnet, then the plugins of `optional`. */
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

/** The names of dockershim: its bridge and its address store stay in use. */
export const kubenetNetworkName = "kubenet";
export const kubenetBridge = "cbr0";

export type HairpinMode = "hairpin-veth" | "promiscuous-bridge" | "none";

export interface KubenetListOptions {
  readonly cniVersion: string;
  readonly subnets: readonly PodSubnet[];
  readonly mtuBytes: number;
  readonly hairpinMode: HairpinMode;
  /** Which of the plugins beside `bridge` are in the list. */
  readonly plugins: ReadonlySet<OptionalPlugin>;
}

/** As JSON. */
export function kubenetListText({
  cniVersion,
  subnets,
  mtuBytes,
  hairpinMode,
  plugins,
}: KubenetListOptions): string {
  return JSON.stringify({
    cniVersion,
    name: kubenetNetworkName,
    plugins: bridgePlugins(
      {
        bridge: kubenetBridge,
        mtu: mtuBytes,
        isGateway: true,
        // After a change of the pod CIDR the old gateway address is replaced.
        forceAddress: true,
        // The masquerade rule of the node covers all pods.
        ipMasq: false,
        hairpinMode: hairpinMode === "hairpin-veth",
        promiscMode: hairpinMode === "promiscuous-bridge",
      },
      subnets,
      [...plugins],
    ),
  });
}
