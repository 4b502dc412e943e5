/** Frees addresses of pods that ended without a tear-down, as in a power cut: the pool fills up with them. */
import type { KnownSandboxes } from "../../shim/ports/network-plugin.js";
import { messageOf } from "../../lib/errors.js";
import type { Logger } from "../../lib/log.js";
import type { NetworkPlugin } from "../../shim/ports/network-plugin.js";
import { hostLocalDirectory, reservedAddresses, type ReservedAddress } from "../orphans/held-resources.js";
import { removeOrphanedAttachments, type CleanUpTools } from "../orphans/remove-orphaned-attachments.js";
import { kubenetNetworkName } from "./kubenet-conflist.js";

/** Undefined when the dead sandboxes are not known: the engine is not the one that ran them. */
export type ReadKnownSandboxes = (signal: AbortSignal) => Promise<KnownSandboxes | undefined>;

export interface LeakedAddressesOptions {
  readonly pods: Pick<NetworkPlugin, "tearDownPod">;
  readonly tools: CleanUpTools;
  readonly knownSandboxes: ReadKnownSandboxes;
  /** Sandboxes whose set-up is under way: their addresses are in use, although no record names them yet. */
  readonly settingUp: ReadonlySet<string>;
  readonly log: Pick<Logger, "info" | "warn">;
  /** Data directory of the host-local plugin; its default when not given. */
  readonly addressDir?: string;
}

/**
 * Frees addresses of recorded sandboxes without a container, by DEL; returns them. The directory is read
 * before the list of containers, which exist before their addresses. Those of another shim stay.
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
    log.warn({ addresses: reserved.length }, "engine has changed, leaked addresses are not freed");
    return [];
  }
  const leaked = reserved.filter(
    ({ containerId }) =>
      known.ownIds.has(containerId) && !known.livingIds.has(containerId) && !settingUp.has(containerId),
  );
  for (const containerId of new Set(leaked.map((address) => address.containerId))) {
    // Undoes everything that is cached of the sandbox, not only its addresses.
    const reference = { namespace: "", name: "", sandboxId: containerId, portMappings: [] };
    await pods.tearDownPod(reference, signal).catch((error: unknown) => {
      signal.throwIfAborted();
      log.warn(
        { sandboxId: containerId, err: messageOf(error) },
        "cannot tear down the network of a deleted sandbox",
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
  for (const { finding, reason } of failed)
    log.warn({ what: finding.what, err: reason }, "cannot free a leaked address");
  const addresses = leaked.map(({ address }) => address);
  if (leaked.length > 0) log.info({ addresses }, "freed leaked addresses");
  return leaked;
}
