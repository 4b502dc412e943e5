/** Names of the Docker volumes that hold the files of play on a remote engine. Pure. */
import { createHash } from "node:crypto";

/** The beginning of all names that play makes on such an engine; the helper program refuses paths without it. */
export const namePrefix = "dockershim-play";
/** The volume with a directory for each pod. */
export const podsVolume = namePrefix;
/** The container that has the volumes. */
export const helperName = `${namePrefix}-files`;
/** The kind of a volume or of the helper: `files`, `claim`, `helper`. */
export const kindLabel = "dockershim.play";
/** The PersistentVolumeClaim of a volume: `namespace/name`. */
export const claimLabel = "dockershim.play.claim";

const claimPrefix = `${namePrefix}-claim-`;
/** A volume is a directory, whose name has no more; the rest is for the hash. */
const longestName = 255;
const hashLength = 12;

/** Docker's names have no slash. A namespace has no dot, so that the dot ends it. */
export function claimVolume(namespace: string, claim: string): string {
  const name = `${claimPrefix}${namespace}.${claim}`;
  if (name.length <= longestName) return name;
  const hash = createHash("sha256").update(name).digest("hex").slice(0, hashLength);
  return `${name.slice(0, longestName - hashLength - 1)}-${hash}`;
}

/** Whether containers mount the volume of a claim by this name. */
export function isClaimVolume(name: string): boolean {
  return name.startsWith(claimPrefix);
}
