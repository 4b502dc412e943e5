/** What the CRI does not show of a pod of play, from what play keeps of it on disk. */
import type { PodSandboxStatus } from "../../domain/cri.js";
import { messageOf } from "../../lib/errors.js";
import { type PodEnd, readPodEnd, type PodRecordDeps, readPodRecord } from "../node/pod-record.js";
import { podUid } from "../manifests/names.js";
import type { Container, PodSpec } from "../manifests/pod-schema.js";
import type { Manifest } from "../manifests/read-manifests.js";

type Deps = PodRecordDeps & { readonly report: (line: string) => void };

/** The pod's containers, the init containers first. */
export function containersOf({ initContainers = [], containers }: PodSpec): readonly Container[] {
  return [...initContainers, ...containers];
}

export interface KeptPod {
  readonly manifest: Manifest;
  /** How play has ended it. */
  readonly end?: PodEnd;
}

/** Undefined without a record, and, with a line, when it cannot be read. */
export async function keptPod(
  { id, metadata }: Pick<PodSandboxStatus, "id" | "metadata">,
  deps: Deps,
): Promise<KeptPod | undefined> {
  const uid = metadata?.uid ?? "";
  if (podUid(uid) !== undefined) return undefined; // It comes from the CRI, and is part of a path.
  try {
    const manifest = await readPodRecord(uid, deps);
    const end = await readPodEnd({ uid }, id, deps);
    return manifest === undefined ? undefined : { manifest, ...(end === undefined ? {} : { end }) };
  } catch (error) {
    deps.report(messageOf(error));
    return undefined;
  }
}
