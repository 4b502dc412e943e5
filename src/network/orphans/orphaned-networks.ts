/** Network resources of dead pods: listed by `dockershim doctor network`, removed after a start. */
import type { KnownSandboxes } from "../../shim/ports/network-plugin.js";
import { orAbort, withDeadline } from "../../lib/abort.js";
import { messageOf } from "../../lib/errors.js";
import { removeOrphanedAttachments } from "./remove-orphaned-attachments.js";
import type { NetworkList } from "../libcni/configuration.js";
import type { CniParts } from "../cni/create-cni-plugin.js";
import { readHoldings } from "./held-resources.js";
import { changeNatTables } from "../cni/nat-rules.js";
import {
  compareHoldings,
  type Finding as CniFinding,
  orphanedChains,
  type OrphanedChain,
  attachmentsToKeep,
} from "./find-orphans.js";
import { removalText } from "../hostport/legacy-chains.js";
import { parseSavedTable } from "../iptables/saved-table.js";
import { hasGarbageCollection } from "../libcni/network-list-runner.js";

export type Finding = CniFinding | OrphanedChain;

export interface CleanUp {
  readonly cleaned: readonly Finding[];
  readonly failed: readonly { readonly finding: Finding; readonly reason: string }[];
  /** Findings whose owner is unknown; they are skipped. */
  readonly left: readonly Finding[];
}

const chainTimeoutMs = 60_000;

export class OrphanedNetworks {
  /**
   * `networks` are those of the present configuration: their addresses are read also without a cache entry.
   */
  constructor(
    private readonly parts: CniParts,
    private readonly networks: () => Promise<readonly NetworkList[]>,
  ) {}

  /**
   * Compares cache, addresses and rules with the existing sandboxes. Changes nothing. `known` is called after
   * the node was read: a container is made before its network, so each resource has an owner, unless the
   * owner is dead.
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

  /**
   * Removes resources that are certainly ours; others are skipped and reported. Throws only when `signal`
   * aborts.
   */
  async clean(known: () => Promise<KnownSandboxes>, signal: AbortSignal): Promise<CleanUp> {
    const findings = await this.find(known, signal);
    const isChain = (finding: Finding): finding is OrphanedChain => finding.kind === "hostPortChain";
    const others = findings.filter((finding): finding is CniFinding => !isChain(finding));
    const { cleaned, failed, left } = await removeOrphanedAttachments(others, this.parts, signal);
    const all: { [part in keyof CleanUp]: CleanUp[part][number][] } = {
      cleaned: [...cleaned],
      failed: [...failed],
      left: [...left],
    };
    for (const finding of findings.filter(isChain)) {
      if (!finding.certainlyOurs) {
        all.left.push(finding);
        continue;
      }
      try {
        await withDeadline(signal, chainTimeoutMs, `remove ${finding.chain}`, (own) =>
          this.#removeChain(finding, own),
        );
        all.cleaned.push(finding);
      } catch (error) {
        signal.throwIfAborted();
        all.failed.push({ finding, reason: messageOf(error) });
      }
    }
    return all;
  }

  async #removeChain({ family, chain }: OrphanedChain, signal: AbortSignal): Promise<void> {
    const textFor = (save: string): string | undefined =>
      removalText(parseSavedTable(save), new Set([chain]));
    await changeNatTables(this.parts.natTables, family, textFor, signal);
  }

  /** As `collectGarbage` of all networks. To be called after `clean`. */
  async collectGarbage(known: () => Promise<KnownSandboxes>, signal: AbortSignal): Promise<void> {
    await collectGarbage(this.parts, await this.networks(), known, signal);
  }

  /** As `checkAttachments`. */
  check(livingIds: ReadonlySet<string>, signal: AbortSignal): Promise<readonly string[]> {
    return checkAttachments(this.parts, livingIds, signal);
  }
}

/** For GC, with the wait for plugins that run before it. */
const garbageTimeoutMs = 30_000;

/**
 * GC of each list that supports it: plugins remove resources that only they can see. All attachments but
 * those of recorded, dead sandboxes are named as valid. Throws the errors of the plugins.
 */
export async function collectGarbage(
  { cache, natTables, attachments }: CniParts,
  networks: readonly NetworkList[],
  known: () => Promise<KnownSandboxes>,
  signal: AbortSignal,
): Promise<void> {
  for (const list of networks) {
    if (!hasGarbageCollection(list)) continue;
    await withDeadline(signal, garbageTimeoutMs, `collect garbage of network ${list.name}`, (own) =>
      attachments.collectGarbage(
        list,
        async (limited) => {
          const holdings = await readHoldings({ cache, natTables, networks: [list] }, limited);
          return attachmentsToKeep(list.name, holdings, await orAbort(known(), limited));
        },
        own,
      ),
    );
  }
}

/**
 * CHECK of all attachments of living containers; returns the errors of the plugins. Some plugins report
 * errors for healthy pods, so the result is only shown to the administrator.
 */
export async function checkAttachments(
  { cache, attachments }: CniParts,
  livingIds: ReadonlySet<string>,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const complaints: string[] = [];
  for (const entry of await cache.list()) {
    if (!livingIds.has(entry.containerId)) continue;
    await attachments.check(entry, signal).catch((error: unknown) => {
      signal.throwIfAborted();
      complaints.push(messageOf(error));
    });
  }
  return complaints;
}
