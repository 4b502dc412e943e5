/** Addresses whose pods died without a tear-down, as in a power cut: the pool fills up with them. */
import { messageOf } from "../../shim/lib/errors.js";
import type { Logger } from "../../shim/lib/log.js";
import type { NetworkPlugin } from "../../shim/ports/network-plugin.js";
import { hostLocalDirectory, reservedAddresses, type ReservedAddress } from "../orphans/held-resources.js";
import { removeOrphanedAttachments, type CleanUpTools } from "../orphans/remove-orphans.js";
import type { KnownSandboxes } from "../orphans/find-orphans.js";
import { kubenetNetworkName } from "./bridge-list.js";

/** Undefined when it cannot be told which sandboxes are dead, as on another engine than the one they are of. */
export type ReadKnownSandboxes = (signal: AbortSignal) => Promise<KnownSandboxes | undefined>;

export interface LeakedAddressesOptions {
  readonly pods: Pick<NetworkPlugin, "tearDownPod">;
  readonly tools: CleanUpTools;
  readonly knownSandboxes: ReadKnownSandboxes;
  /** Sandboxes that have or will have an address in a moment, whatever is known of them. */
  readonly settingUp: ReadonlySet<string>;
  readonly log: Pick<Logger, "info" | "warn">;
  /** Where the address plugin has its directories; the usual place when not given. */
  readonly addressDir?: string;
}

/**
 * Frees the addresses of the network `kubenet` that belong to sandboxes of ours without a container, by DEL; returns
 * them. The directory is read before the containers: a container exists before it has an address, so whoever is missing
 * then is dead. Addresses of sandboxes that nobody here has noted may be another shim's: they stay.
 */
export async function freeLeakedAddresses(
  options: LeakedAddressesOptions,
  signal: AbortSignal,
): Promise<readonly ReservedAddress[]> {
  const { pods, tools, knownSandboxes, settingUp, log, addressDir: dataDir = hostLocalDirectory } = options;
  const reserved = await reservedAddresses(dataDir, kubenetNetworkName);
  if (reserved.length === 0) return [];
  const known = await knownSandboxes(signal);
  if (known === undefined) {
    log.warn({ addresses: reserved.length }, "another engine than before: no address is taken for leaked");
    return [];
  }
  const leaked = reserved.filter(
    ({ containerId }) =>
      known.ownIds.has(containerId) && !known.livingIds.has(containerId) && !settingUp.has(containerId),
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
    address,
    what: `address ${address.address} of network ${kubenetNetworkName}`,
    ownerId: address.containerId,
    certainlyOurs: true,
  }));
  const { failed } = await removeOrphanedAttachments(findings, tools, signal);
  for (const { finding, reason } of failed) log.warn({ err: reason }, `cannot free ${finding.what}`);
  const addresses = leaked.map(({ address }) => address);
  if (leaked.length > 0) log.info({ addresses }, "freed addresses of pods that are gone");
  return leaked;
}
