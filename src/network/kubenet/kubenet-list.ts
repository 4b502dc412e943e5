/** The network list that stands for kubenet: dockershim's bridge and addresses, and plugins for what it did itself. */
import type { PodSubnet } from "./pod-subnets.js";

/** As the ancestors named them: their bridge and their store of addresses go on being used. */
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

/** In the order of the list. */
export const optionalPlugins = ["portmap", "bandwidth", "firewall"] as const;
export type OptionalPlugin = (typeof optionalPlugins)[number];

export const requiredPlugins = ["bridge", "host-local"] as const;

/** As JSON. Plugins with capabilities do nothing for pods that do not ask for them. */
export function kubenetListText({
  cniVersion,
  subnets,
  mtuBytes,
  hairpinMode,
  plugins,
}: KubenetListOptions): string {
  const further = {
    portmap: { type: "portmap", capabilities: { portMappings: true }, snat: true },
    bandwidth: { type: "bandwidth", capabilities: { bandwidth: true } },
    firewall: { type: "firewall" },
  };
  return JSON.stringify({
    cniVersion,
    name: kubenetNetworkName,
    plugins: [
      {
        type: "bridge",
        bridge: kubenetBridge,
        mtu: mtuBytes,
        isGateway: true,
        // Another pod CIDR than last time: the old gateway address gives way.
        forceAddress: true,
        // The rule for the whole node does that.
        ipMasq: false,
        hairpinMode: hairpinMode === "hairpin-veth",
        promiscMode: hairpinMode === "promiscuous-bridge",
        ipam: {
          type: "host-local",
          ranges: subnets.map(({ cidr }) => [{ subnet: cidr }]),
          routes: subnets.map(({ family }) => ({ dst: family === "ipv4" ? "0.0.0.0/0" : "::/0" })),
        },
      },
      ...optionalPlugins.filter((type) => plugins.has(type)).map((type) => further[type]),
    ],
  });
}
