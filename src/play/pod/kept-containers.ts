/** What the CRI does not tell of a pod of play, from the manifest that play keeps of it. */
import type { PodSandboxStatus } from "../../shim/domain/cri.js";
import { messageOf } from "../../shim/lib/errors.js";
import { type PodRecordDeps, readPodRecord } from "../containers/pod-record.js";
import { podUid } from "../manifests/names.js";
import type { Container, PodSpec } from "../manifests/pod-schema.js";

type Deps = PodRecordDeps & { readonly report: (line: string) => void };

/** The pod's containers, the init containers first. Undefined, with a line when there is one, without a record. */
export async function keptContainers(
  status: Pick<PodSandboxStatus, "metadata">,
  deps: Deps,
): Promise<readonly Container[] | undefined> {
  const spec = await keptSpec(status, deps);
  return spec === undefined ? undefined : [...(spec.initContainers ?? []), ...spec.containers];
}

/** The same of the whole spec. */
export async function keptSpec(
  { metadata }: Pick<PodSandboxStatus, "metadata">,
  deps: Deps,
): Promise<PodSpec | undefined> {
  const uid = metadata?.uid ?? "";
  if (podUid(uid) !== undefined) return undefined; // It comes from the CRI, and is part of a path.
  try {
    return (await readPodRecord(uid, deps))?.pod.spec;
  } catch (error) {
    deps.report(messageOf(error));
    return undefined;
  }
}
