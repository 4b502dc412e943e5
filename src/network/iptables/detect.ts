/** Chooses the iptables backend of this host. */
import { isKind, ShimError, unlessKind } from "../../lib/errors.js";
import { outputOf, runCommand, type RunCommand } from "./run-command.js";

export type IptablesMode = "auto" | IptablesBackend;

export interface IptablesTools {
  readonly version: IptablesVersion;
  /** Part of each program's name, as in `iptables-nft-save`; empty for plain `iptables`. */
  readonly suffix: "" | "-nft" | "-legacy";
  /** For the log. */
  readonly reason: string;
  /** Plain `iptables`, which the CNI plugins call, is of the other backend. */
  readonly differsFromDefault: boolean;
}

/**
 * The kernel can hold rules of both backends at once, and a packet meets both. `auto` takes the backend that
 * holds Kubernetes' chains, which is kube-proxy's; when neither or both do, what plain `iptables` is, or the
 * one with more of them. `unavailable` when the wanted one is not installed.
 */
export async function detectIptables(
  mode: IptablesMode,
  signal: AbortSignal,
  run: RunCommand = runCommand,
): Promise<IptablesTools> {
  const plain = await versionOf("", signal, run);
  if (mode !== "auto")
    return toolsFor(mode, plain, `the mode ${JSON.stringify(mode)} is configured`, signal, run);
  const counts = {
    nft: await kubernetesLines("nft", signal, run),
    legacy: await kubernetesLines("legacy", signal, run),
  };
  if (counts.nft === counts.legacy) {
    if (plain === undefined) throw new ShimError("unavailable", "iptables is not installed");
    const reason = "plain iptables, for Kubernetes has no chains in either backend";
    return { version: plain, suffix: "", reason, differsFromDefault: false };
  }
  const chosen = counts.nft > counts.legacy ? "nft" : "legacy";
  const reason = `Kubernetes has chains in it (lines: nft ${counts.nft}, legacy ${counts.legacy})`;
  return toolsFor(chosen, plain, reason, signal, run);
}

/** Plain `iptables`, which the CNI plugins call; undefined when it is not installed. */
export async function plainIptables(
  signal: AbortSignal,
  run: RunCommand = runCommand,
): Promise<IptablesTools | undefined> {
  const version = await versionOf("", signal, run);
  const reason = "plain iptables";
  return version === undefined ? undefined : { version, suffix: "", reason, differsFromDefault: false };
}

async function toolsFor(
  backend: IptablesBackend,
  plain: IptablesVersion | undefined,
  reason: string,
  signal: AbortSignal,
  run: RunCommand,
): Promise<IptablesTools> {
  if (plain?.backend === backend) return { version: plain, suffix: "", reason, differsFromDefault: false };
  const suffix = `-${backend}` as const;
  const version = await versionOf(suffix, signal, run);
  if (version === undefined) throw new ShimError("unavailable", `iptables${suffix} is not installed`);
  return { version, suffix, reason, differsFromDefault: plain !== undefined };
}

async function versionOf(
  suffix: IptablesTools["suffix"],
  signal: AbortSignal,
  run: RunCommand,
): Promise<IptablesVersion | undefined> {
  const program = `iptables${suffix}`;
  const output = await outputOf(run, program, ["--version"], { signal }).catch(unlessKind("notFound"));
  if (output === undefined) return undefined;
  const version = parseIptablesVersion(output);
  if (version === undefined)
    throw new ShimError("unknown", `version of ${program}: not in ${JSON.stringify(output)}`);
  return version;
}

/** Without `-t`: naming a table would make the kernel load it. */
async function kubernetesLines(
  backend: IptablesBackend,
  signal: AbortSignal,
  run: RunCommand,
): Promise<number> {
  let lines = 0;
  for (const program of [`iptables-${backend}-save`, `ip6tables-${backend}-save`]) {
    try {
      const output = await outputOf(run, program, [], { signal });
      lines += output.split("\n").filter((line) => /^:KUBE-|^-A .*KUBE-/.test(line)).length;
    } catch (error) {
      signal.throwIfAborted();
      // Not installed, or not in this kernel: then nothing is in it.
      if (!isKind(error, "notFound", "unknown")) throw error;
    }
  }
  return lines;
}

export type IptablesBackend = "nft" | "legacy";

export interface IptablesVersion {
  readonly text: string;
  /** Major, minor, patch. */
  readonly parts: readonly [number, number, number];
  readonly backend: IptablesBackend;
}

/** From `iptables v1.8.9 (nf_tables)`; before 1.8 there was no other backend than the old one. */
export function parseIptablesVersion(output: string): IptablesVersion | undefined {
  const match = /v?(\d+)\.(\d+)(?:\.(\d+))?/.exec(output);
  if (match === null) return undefined;
  const [text, major = "0", minor = "0", patch = "0"] = match;
  return {
    text: text.replace(/^v/, ""),
    parts: [Number(major), Number(minor), Number(patch)],
    backend: output.includes("nf_tables") ? "nft" : "legacy",
  };
}

const waitSeconds = "5";
const pollMicroseconds = "100000";

/** Before the command: how long to wait for another program that holds the tables. */
export function waitFlags(version: IptablesVersion): readonly string[] {
  // The interval was there from 1.6.1 and is refused as deprecated, with a line on stderr, from 1.8.8.
  if (isAtLeast(version, [1, 6, 1]) && !isAtLeast(version, [1, 8, 8])) {
    return ["-w", waitSeconds, "-W", pollMicroseconds];
  }
  if (isAtLeast(version, [1, 4, 22])) return ["-w", waitSeconds];
  return isAtLeast(version, [1, 4, 20]) ? ["-w"] : [];
}

/** The same for `iptables-restore`, which learned to wait later. */
export function restoreWaitFlags(version: IptablesVersion): readonly string[] {
  return isAtLeast(version, [1, 6, 2]) ? waitFlags(version) : [];
}

function isAtLeast({ parts }: IptablesVersion, least: readonly [number, number, number]): boolean {
  for (const [index, wanted] of least.entries()) {
    const part = parts[index] ?? 0;
    if (part !== wanted) return part > wanted;
  }
  return true;
}
