/** What the CRI does not tell of a pod of play, from the manifest that play keeps of it. */
import type { PodSandboxStatus } from "../../shim/domain/cri.js";
import { messageOf } from "../../shim/lib/errors.js";
import { type PodRecordDeps, readPodRecord } from "../containers/pod-record.js";
import { podUid } from "../manifests/names.js";
import type { Container, PodSpec } from "../manifests/pod-schema.js";
import type { Manifest } from "../manifests/read-manifests.js";

type Deps = PodRecordDeps & { readonly report: (line: string) => void };

/** The pod's containers, the init containers first. */
export function containersOf({ initContainers = [], containers }: PodSpec): readonly Container[] {
  return [...initContainers, ...containers];
}

/** Undefined without a record, and, with a line, when it cannot be read. */
export async function keptManifest(
  { metadata }: Pick<PodSandboxStatus, "metadata">,
  deps: Deps,
): Promise<Manifest | undefined> {
  const uid = metadata?.uid ?? "";
  if (podUid(uid) !== undefined) return undefined; // It comes from the CRI, and is part of a path.
  try {
    return await readPodRecord(uid, deps);
  } catch (error) {
    deps.report(messageOf(error));
    return undefined;
  }
}
