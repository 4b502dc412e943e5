/** What `iptables --version` prints, and which flags of waiting a version has. */

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
