/** Versions of the CNI specification. */

/** All that this engine can speak, oldest first. */
export const knownVersions = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"] as const;

export const newestVersion = "1.1.0";

/** What a missing or empty `cniVersion` means. */
export const oldestVersion = "0.1.0";

export function isKnownVersion(version: string): boolean {
  return (knownVersions as readonly string[]).includes(version);
}

/** Negative when `left` is older than `right`; parts that are no numbers count as 0. */
export function compareVersions(left: string, right: string): number {
  const [leftParts, rightParts] = [left, right].map(parts);
  for (let index = 0; index < 3; index += 1) {
    const difference = (leftParts?.[index] ?? 0) - (rightParts?.[index] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

export function isAtLeast(version: string, least: string): boolean {
  return compareVersions(version, least) >= 0;
}

function parts(version: string): readonly number[] {
  return version.split(".").map((part) => (/^\d+$/.test(part) ? Number(part) : 0));
}
