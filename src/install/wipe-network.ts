/** What this program made of the node's network beside its pods: kubenet's bridge and rules, the example's bridge. */
import { rmdir } from "node:fs/promises";
import { join } from "node:path";
import { sleep } from "../lib/abort.js";
import { ShimError, succeeds } from "../lib/errors.js";
import { removeFile } from "../lib/files/atomic-file.js";
import { namesIn } from "../lib/files/directories.js";
import { readRegularFile } from "../lib/files/state-files.js";
import { exampleBridges, exampleFileName } from "../network/example/example-conflist.js";
import type { HostIptables } from "../network/iptables/host-iptables.js";
import { addressFamilies, type AddressFamily, type Iptables } from "../network/iptables/iptables.js";
import { outputOf, type RunCommand } from "../network/iptables/run-command.js";
import { commentOf, parseSavedTable } from "../network/iptables/saved-table.js";
import { readLinks } from "../network/kubenet/host-links.js";
import { kubenetBridge } from "../network/kubenet/kubenet-conflist.js";
import type { Step } from "./steps.js";

export interface NetworkToWipe {
  readonly run: RunCommand;
  readonly iptables: Pick<HostIptables, "everywhere">;
  /** `--cni-conf-dir` */
  readonly cniConfDir: string;
  /** Between two looks for ports of a bridge; real time by default. */
  readonly pause?: typeof sleep;
}

const ruleComments = ["kubenet: SNAT for outbound traffic from cluster", "kubenet: pod traffic"];
const dedupChain = "KUBE-DEDUP";
const limitBytes = 1024 * 1024;
/** The kernel removes the links of ended network namespaces one after the other: seconds, where much goes at once. */
const portLooks = 100;
const portPauseMs = 100;

/** Steps for what is there. */
export async function networkSteps(
  { run, iptables, cniConfDir, pause = sleep }: NetworkToWipe,
  signal: AbortSignal,
): Promise<readonly Step[]> {
  const steps: Step[] = [];
  for (const backend of await iptables.everywhere(signal)) {
    for (const family of addressFamilies) {
      for (const table of ["nat", "filter"] as const)
        steps.push(...(await ruleSteps(backend, family, table, signal)));
    }
  }
  const ebtables = (...words: readonly string[]): Promise<string> =>
    outputOf(run, "ebtables", ["-t", "filter", ...words], { signal });
  // Not installed, or no such chain.
  const hasDedup = await succeeds(ebtables("-L", dedupChain));
  if (hasDedup)
    steps.push({
      text: `remove  chain ${dedupChain} of ebtables`,
      run: async () => {
        await ebtables("-D", "OUTPUT", "-j", dedupChain).catch(() => undefined); // It may be gone already.
        await ebtables("-F", dedupChain);
        await ebtables("-X", dedupChain);
      },
    });
  const example = join(cniConfDir, exampleFileName);
  const bridges = [kubenetBridge, ...(await bridgesOf(example))];
  const links = await readLinks(run, signal).catch(() => []); // Without `ip` there was no kubenet.
  for (const { name } of links.filter((link) => bridges.includes(link.name)))
    steps.push({ text: `remove  bridge ${name}`, run: () => removeBridge(name, { run, pause }, signal) });
  if ((await namesIn(cniConfDir)).includes(exampleFileName))
    steps.push({
      text: `remove  ${example}`,
      run: async () => {
        await removeFile(example);
        // An empty directory makes the next `auto` choose cni. It has files of others otherwise.
        await rmdir(cniConfDir).catch(() => undefined);
      },
    });
  return steps;
}

/** Not while it has ports: those of removed pods go, others belong to pods of another program. */
async function removeBridge(
  name: string,
  { run, pause }: Required<Pick<NetworkToWipe, "run" | "pause">>,
  signal: AbortSignal,
): Promise<void> {
  for (let look = 1; (await readLinks(run, signal)).some(({ master }) => master === name); look++) {
    if (look === portLooks) throw new ShimError("precondition", "it has ports, of pods of another program");
    await pause(portPauseMs, signal);
  }
  await outputOf(run, "ip", ["link", "delete", name], { signal });
}

async function ruleSteps(
  backend: Iptables,
  family: AddressFamily,
  table: "nat" | "filter",
  signal: AbortSignal,
): Promise<readonly Step[]> {
  const { rules } = parseSavedTable(await backend.saveIfAny(family, table, signal), table);
  const own = rules.filter((rule) => ruleComments.includes(commentOf(rule) ?? ""));
  if (own.length === 0) return [];
  const text = [`*${table}`, ...own.map((rule) => `-D ${rule.chain} ${rule.text}`), "COMMIT", ""].join("\n");
  const chains = [...new Set(own.map(({ chain }) => chain))].join(", ");
  return [
    {
      text: `remove  ${own.length} rules of kubenet in ${chains} (${family} ${table})`,
      run: () => backend.restore(family, text, signal),
    },
  ];
}

/** Of the example list, if it is there; another name is an edit, and the bridge perhaps Docker's or the host's. */
async function bridgesOf(example: string): Promise<readonly string[]> {
  const reading = await readRegularFile(example, limitBytes);
  if (reading.kind !== "read") return [];
  try {
    const { plugins = [] } = JSON.parse(Buffer.from(reading.bytes).toString()) as {
      plugins?: readonly { readonly type?: string; readonly bridge?: string }[];
    };
    const named = plugins.flatMap(({ type, bridge }) => (type === "bridge" ? [bridge] : []));
    return exampleBridges.filter((bridge) => named.includes(bridge));
  } catch {
    return []; // Edited to something else: it is removed all the same.
  }
}
