/** What CNI plugins are asked about all pods: to collect garbage, and whether the pods that run are well. */
import { withDeadline } from "../shim/lib/abort.js";
import { messageOf } from "../shim/lib/errors.js";
import type { NetworkList } from "./libcni/configuration.js";
import type { CniParts } from "./cni/create-cni-plugin.js";
import { hasGarbageCollection } from "./libcni/network-engine.js";
import { readHoldings } from "./cni/held-attachments.js";
import { attachmentsToKeep, type KnownSandboxes } from "./orphans/reconcile.js";

/** All set-ups and tear-downs wait while plugins collect garbage: one that hangs must not keep them for long. */
const garbageTimeoutMs = 30_000;

/**
 * GC of every list that has the command: plugins take away what only they can see. What is not certainly ours and dead
 * is named to them as in use. Throws what the plugins complain about.
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
        async () => {
          const holdings = await readHoldings({ cache, natTables, networks: [list] }, own);
          return attachmentsToKeep(list.name, holdings, await known());
        },
        own,
      ),
    );
  }
}

/**
 * CHECK of all attachments of containers that live. What the plugins complain about, one line each; some complain
 * about pods that are well, so this is for people to judge.
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
