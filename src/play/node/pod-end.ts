/**
 * How play has ended a pod, kept with its record: its containers do not show it, and a later play would start
 * them again.
 */
import { type TypeOf, mandatory, object, string } from "../manifests/schema.js";
import type { PodRecordDeps } from "./pod-record.js";
import { endPath } from "../pod-config/pod-paths.js";
import type { PodKey } from "../manifests/manifest.js";

export interface PodEnd {
  readonly phase: "Failed";
  /** Such as `Evicted`. */
  readonly reason: string;
  readonly message: string;
}

const limitBytes = 64 * 1024;
const readEnd = object({
  sandbox: mandatory(string()),
  reason: mandatory(string()),
  message: mandatory(string()),
});

export async function writePodEnd(
  key: Pick<PodKey, "uid">,
  sandbox: string,
  { reason, message }: Pick<PodEnd, "reason" | "message">,
  { files, directories }: PodRecordDeps,
): Promise<void> {
  await files.replaceFile(endPath(directories, key), JSON.stringify({ sandbox, reason, message }));
}

/** Undefined when play has not ended the pod in its newest sandbox, and for a damaged file. */
export async function readPodEnd(
  key: Pick<PodKey, "uid">,
  sandbox: string,
  { files, directories }: PodRecordDeps,
): Promise<PodEnd | undefined> {
  const text = await files.readFile(endPath(directories, key), limitBytes);
  if (text === undefined) return undefined;
  try {
    const end: TypeOf<typeof readEnd> | undefined = readEnd(JSON.parse(text), "", []);
    if (end?.sandbox !== sandbox) return undefined;
    return { phase: "Failed", reason: end.reason, message: end.message };
  } catch {
    return undefined;
  }
}
