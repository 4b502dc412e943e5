/** Addresses whose pods died without a tear-down, as in a power cut: the pool fills up with them. */
import { join } from "node:path";
import { messageOf } from "../../shim/base/errors.js";
import type { Logger } from "../../shim/base/log.js";
import type { NetworkPlugin } from "../../shim/ports/network-plugin.js";
import { cleanLeftovers, type LeftoverTools } from "../cni/clean-leftovers.js";
import { hostLocalDirectory, readReservations, type Reservation } from "./address-store.js";
import { kubenetNetworkName } from "./kubenet-list.js";

/** All containers that the engine knows, in any state. Must be complete: what is not among them counts as dead. */
export type ReadLivingIds = (signal: AbortSignal) => Promise<ReadonlySet<string>>;

export interface LeakedAddressesOptions {
  readonly pods: Pick<NetworkPlugin, "tearDownPod">;
  readonly tools: LeftoverTools;
  readonly livingIds: ReadLivingIds;
  readonly log: Pick<Logger, "info" | "warn">;
  /** Where the address plugin has its directories; the usual place when not given. */
  readonly addressDir?: string;
}

/** Ids that Docker gives; anything else in the directory is none of ours. */
const sandboxIdForm = /^[0-9a-f]{64}$/;

/**
 * Frees the addresses of the network `kubenet` that belong to no container, by DEL; returns them. The directory is
 * read before the containers: a container exists before it has an address, so whoever is missing then is dead.
 */
export async function freeLeakedAddresses(
  options: LeakedAddressesOptions,
  signal: AbortSignal,
): Promise<readonly Reservation[]> {
  const { pods, tools, livingIds, log, addressDir: dataDir = hostLocalDirectory } = options;
  const reserved = await readReservations(join(dataDir, kubenetNetworkName));
  if (reserved.length === 0) return [];
  const living = await livingIds(signal);
  const leaked = reserved.filter(
    ({ containerId }) => sandboxIdForm.test(containerId) && !living.has(containerId),
  );
  for (const containerId of new Set(leaked.map((address) => address.containerId))) {
    // All that is remembered of the sandbox goes, not only its addresses.
    const reference = { namespace: "", name: "", sandboxId: containerId, portMappings: [] };
    await pods.tearDownPod(reference, signal).catch((error: unknown) => {
      signal.throwIfAborted();
      log.warn(
        { sandboxId: containerId, err: messageOf(error) },
        "tear-down of a sandbox that is gone failed",
      );
    });
  }
  const findings = leaked.map((address) => ({
    kind: "address" as const,
    address: { ...address, networkName: kubenetNetworkName, dataDir },
    what: `address ${address.address} of network ${kubenetNetworkName}`,
    ownerId: address.containerId,
    certainlyOurs: true,
  }));
  const { failed } = await cleanLeftovers(findings, tools, signal);
  for (const { finding, reason } of failed) log.warn({ err: reason }, `cannot free ${finding.what}`);
  const addresses = leaked.map(({ address }) => address);
  if (leaked.length > 0) log.info({ addresses }, "freed addresses of pods that are gone");
  return leaked;
}
