/** What the CRI does not tell of a pod of play, from the manifest that play keeps of it. */
import type { PodSandboxStatus } from "../../shim/domain/cri.js";
import { messageOf } from "../../shim/lib/errors.js";
import { type PodRecordDeps, readPodRecord } from "../containers/pod-record.js";
import { podUid } from "../manifests/names.js";
import type { Container } from "../manifests/pod-schema.js";

/** The pod's containers, the init containers first. Undefined, with a line when there is one, without a record. */
export async function keptContainers(
  { metadata }: Pick<PodSandboxStatus, "metadata">,
  deps: PodRecordDeps & { readonly report: (line: string) => void },
): Promise<readonly Container[] | undefined> {
  const uid = metadata?.uid ?? "";
  if (podUid(uid) !== undefined) return undefined; // It comes from the CRI, and is part of a path.
  try {
    const kept = await readPodRecord(uid, deps);
    if (kept === undefined) return undefined;
    const { containers, initContainers = [] } = kept.pod.spec;
    return [...initContainers, ...containers];
  } catch (error) {
    deps.report(messageOf(error));
    return undefined;
  }
}
