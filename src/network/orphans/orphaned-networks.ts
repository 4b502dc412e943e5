/** Network resources of dead pods: listed by `dockershim doctor network`, removed after a start. */
import type { KnownSandboxes } from "../../shim/ports/network-plugin.js";
import { orAbort, withDeadline } from "../../lib/abort.js";
import { messageOf } from "../../lib/errors.js";
import { removeOrphanedAttachments, type CleanUp } from "./remove-orphaned-attachments.js";
import type { NetworkList } from "../libcni/configuration.js";
import type { CniParts } from "../cni/create-cni-plugin.js";
import { readHoldings } from "./held-resources.js";
import { attachmentsToKeep, compareHoldings, type Finding, orphanedChains } from "./find-orphans.js";
import { hasGarbageCollection, type AttachmentKey } from "../libcni/network-list-runner.js";

/** For GC, with the wait for plugins that run before it. */
const garbageTimeoutMs = 30_000;

export class OrphanedNetworks {
  /** `networks` of the present configuration: their addresses are read without a cache entry, too. */
  constructor(
    private readonly parts: CniParts,
    private readonly networks: () => Promise<readonly NetworkList[]>,
  ) {}

  /**
   * Compares cache, addresses and rules with the sandboxes. `known` is called after the node was read: a
   * container exists before its network, so an owner that is missing is dead.
   */
  async find(known: () => Promise<KnownSandboxes>, signal: AbortSignal): Promise<readonly Finding[]> {
    const { cache, natTables } = this.parts;
    const networks = await this.networks();
    const holdings = await readHoldings({ cache, natTables, networks }, signal);
    const sandboxes = await known();
    return [
      ...compareHoldings(holdings, sandboxes),
      ...(await orphanedChains(holdings.natTables, sandboxes)),
    ];
  }

  /** Removes what is certainly ours, and reports the rest. Throws only when `signal` aborts. */
  async clean(known: () => Promise<KnownSandboxes>, signal: AbortSignal): Promise<CleanUp> {
    return removeOrphanedAttachments(await this.find(known, signal), this.parts, signal);
  }

  /** GC of each list, after `clean`; all but recorded, dead sandboxes are valid. Throws plugins' errors. */
  async collectGarbage(known: () => Promise<KnownSandboxes>, signal: AbortSignal): Promise<void> {
    const { cache, natTables, attachments } = this.parts;
    for (const list of (await this.networks()).filter(hasGarbageCollection)) {
      const valid = async (limited: AbortSignal): Promise<readonly AttachmentKey[]> => {
        const holdings = await readHoldings({ cache, natTables, networks: [list] }, limited);
        return attachmentsToKeep(list.name, holdings, await orAbort(known(), limited));
      };
      await withDeadline(signal, garbageTimeoutMs, `collect garbage of network ${list.name}`, (own) =>
        attachments.collectGarbage(list, valid, own),
      );
    }
  }

  /** CHECK of living attachments; errors are shown only, for some plugins give them for healthy pods. */
  async check(livingIds: ReadonlySet<string>, signal: AbortSignal): Promise<readonly string[]> {
    const complaints: string[] = [];
    for (const entry of await this.parts.cache.list()) {
      if (!livingIds.has(entry.containerId)) continue;
      await this.parts.attachments.check(entry, signal).catch((error: unknown) => {
        signal.throwIfAborted();
        complaints.push(messageOf(error));
      });
    }
    return complaints;
  }
}
