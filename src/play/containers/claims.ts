/**
 * The data of PersistentVolumeClaims: a directory for each, which outlives the pods. Not a Docker volume:
 * containers mount paths over the CRI, so that `docker volume prune` would take one for unused.
 */
import type { PlayFiles } from "./files.js";
import { type Directories, claimPath, claimsPath } from "./pod-files.js";

export interface Claim {
  readonly namespace: string;
  readonly name: string;
}

export async function listClaims(
  files: Pick<PlayFiles, "list">,
  directories: Directories,
): Promise<readonly Claim[]> {
  const claims: Claim[] = [];
  for (const namespace of await files.list(claimsPath(directories))) {
    const names = await files.list(claimPath(directories, namespace, ""));
    claims.push(...names.map((name) => ({ namespace, name })));
  }
  return claims;
}

/** Deletes the data. The pods of the claim must be gone. */
export async function removeClaim(
  { namespace, name }: Claim,
  files: Pick<PlayFiles, "removeTree">,
  directories: Directories,
): Promise<void> {
  await files.removeTree(claimPath(directories, namespace, name));
}
