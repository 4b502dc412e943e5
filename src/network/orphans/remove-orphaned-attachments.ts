/** Removes orphaned attachments, addresses and nat rules of our own sandboxes. */
import { withDeadline } from "../../lib/abort.js";
import { messageOf } from "../../lib/errors.js";
import type { Attachments } from "../cni/attachments.js";
import type { ReservedAddress } from "./held-resources.js";
import type { PluginInvoker } from "../libcni/invoke-plugin.js";
import {
  removalText,
  readNatRules,
  changeNatTables,
  removeNatRules,
  type NatTables,
} from "../cni/nat-rules.js";
import { removalText as hostPortRemovalText } from "../hostport/legacy-chains.js";
import { parseSavedTable } from "../iptables/saved-table.js";
import type { Finding } from "./find-orphans.js";

/** For one attachment, address, or all rules, from when nothing else is done about the pod. */
const stepTimeoutMs = 60_000;

export interface CleanUpTools {
  readonly attachments: Pick<Attachments, "alone" | "removeRemembered">;
  readonly invoker: PluginInvoker;
  readonly natTables: NatTables;
}

export interface CleanUp {
  readonly cleaned: readonly Finding[];
  readonly failed: readonly { readonly finding: Finding; readonly reason: string }[];
  /** Findings whose owner is unknown; they are skipped. */
  readonly left: readonly Finding[];
}

const order = ["cacheEntry", "address", "natRules", "natChain", "hostPortChain"] as const;

/** What is certainly ours, attachments first: DEL releases addresses and rules. Throws only for `signal`. */
export async function removeOrphanedAttachments(
  findings: readonly Finding[],
  tools: CleanUpTools,
  signal: AbortSignal,
): Promise<CleanUp> {
  const cleaned: Finding[] = [];
  const failed: { finding: Finding; reason: string }[] = [];
  const ours = findings.filter(({ certainlyOurs }) => certainlyOurs);
  for (const kind of order) {
    for (const finding of ours.filter((each) => each.kind === kind)) {
      try {
        if (await clean(finding, tools, signal)) cleaned.push(finding);
      } catch (error) {
        signal.throwIfAborted();
        failed.push({ finding, reason: messageOf(error) });
      }
    }
  }
  return { cleaned, failed, left: findings.filter(({ certainlyOurs }) => !certainlyOurs) };
}

/** False when it has been undone meanwhile. */
async function clean(finding: Finding, tools: CleanUpTools, signal: AbortSignal): Promise<boolean> {
  const work = (): Promise<boolean> =>
    withDeadline(signal, stepTimeoutMs, finding.what, (own) => takeAway(finding, tools, own));
  // Host ports of dockershim have no lock: this program sets none up.
  const ownerId = finding.kind === "hostPortChain" ? undefined : finding.ownerId;
  return ownerId === undefined ? work() : tools.attachments.alone(ownerId, signal, work);
}

/** As `clean`. A missing resource is no error. */
async function takeAway(
  finding: Finding,
  { attachments, invoker, natTables }: CleanUpTools,
  signal: AbortSignal,
): Promise<boolean> {
  switch (finding.kind) {
    case "cacheEntry":
      return attachments.removeRemembered(finding.entry, signal);
    case "address":
      await releaseAddress(finding.address, invoker, signal);
      return true;
    case "natRules":
      if (finding.ownerId !== undefined) await removeNatRules(natTables, new Set([finding.ownerId]), signal);
      return true;
    case "natChain": {
      const { family, chain: wanted } = finding;
      const textFor = (save: string): string | undefined => {
        const chains = readNatRules(save).orphanChains.filter((chain) => chain === wanted);
        return removalText([{ rules: [], chains }]);
      };
      await changeNatTables(natTables, family, textFor, signal);
      return true;
    }
    case "hostPortChain": {
      const { family, chain } = finding;
      const textFor = (save: string): string | undefined =>
        hostPortRemovalText(parseSavedTable(save), new Set([chain]));
      await changeNatTables(natTables, family, textFor, signal);
      return true;
    }
  }
}

/**
 * By a DEL of the plugin that owns the file, under the plugin's own lock (flock, which Node.js does not
 * have): a file removed behind its back could be one that it has just written for another pod. DEL looks for
 * the container among all files of the network, so the range, which the configuration must have, may be any.
 */
async function releaseAddress(
  { networkName, dataDir, containerId, ifName }: ReservedAddress,
  invoker: PluginInvoker,
  signal: AbortSignal,
): Promise<void> {
  const ipam = { type: "host-local", dataDir, ranges: [[{ subnet: "192.0.2.0/24" }]] };
  const input = { cniVersion: "0.3.1", name: networkName, type: "host-local", ipam };
  const subject = `sandbox ${JSON.stringify(containerId)}`;
  const call = {
    type: "host-local",
    command: "DEL",
    netns: "",
    args: [],
    containerId,
    ifName,
    input,
    subject,
  } as const;
  await invoker.run(call, signal);
}
