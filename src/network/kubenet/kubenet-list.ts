/** The network list that stands for kubenet: dockershim's bridge and addresses, and plugins for what it did itself. */
import { bridgePlugins, type OptionalPlugin } from "../bridge-list.js";
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
        // Another pod CIDR than last time: the old gateway address gives way.
        forceAddress: true,
        // The rule for the whole node does that.
        ipMasq: false,
        hairpinMode: hairpinMode === "hairpin-veth",
        promiscMode: hairpinMode === "promiscuous-bridge",
      },
      subnets,
      [...plugins],
    ),
  });
}
