/** Which pods of the history a name or id means. Pure. */
import type { HistoryRecord, LostRecord, RecordSubject } from "./history-record.js";

export type PodRecord = Exclude<HistoryRecord, LostRecord>;

/** One pod of the history: all sandboxes with its uid. */
export interface PodHistory {
  /** `namespace/name`, or the id of a sandbox of which no record says more. */
  readonly pod: string;
  readonly podUid: string;
  /** The container that was asked for; undefined for the whole pod. */
  readonly container?: string;
  /** In order of their begin; with `container` without those of others. */
  readonly records: readonly PodRecord[];
}

/** Shorter texts are names. */
const shortestId = 4;

/**
 * By uid, `namespace/name`, name, or id and name of a container; ids also by prefix. Names of pods by prefix when
 * nothing else has the name. The latest pod comes first.
 */
export function findSubjects(records: readonly HistoryRecord[], wanted: string): readonly PodHistory[] {
  const pods = podsOf(records);
  const isId = wanted.length >= shortestId && /^[\da-f]+$/.test(wanted);
  const has = (id: string | undefined): boolean => isId && id?.startsWith(wanted) === true;
  const whole = pods.filter(
    ({ pod, podUid, records: its }) =>
      podUid === wanted ||
      pod === wanted ||
      nameOf(pod) === wanted ||
      its.some(({ subject }) => has(subject.sandboxId)),
  );
  if (whole.length > 0) return whole;
  const parts = pods.flatMap((pod) => {
    const container = pod.records
      .map(({ subject }) => subject)
      .find(({ containerId, containerName }) => containerName === wanted || has(containerId));
    const name = container?.containerName;
    if (name === undefined) return [];
    const isOf = ({ containerName }: RecordSubject): boolean =>
      containerName === undefined || containerName === name;
    return [{ ...pod, container: name, records: pod.records.filter(({ subject }) => isOf(subject)) }];
  });
  if (parts.length > 0) return parts;
  return pods.filter(({ pod }) => pod.startsWith(wanted) || nameOf(pod).startsWith(wanted));
}

function nameOf(pod: string): string {
  return pod.slice(pod.indexOf("/") + 1);
}

/** In the order of their last records in the files: the clock may have been set back. */
function podsOf(records: readonly HistoryRecord[]): readonly PodHistory[] {
  const known = new Map<string, RecordSubject>();
  const keysOf = ({ sandboxId, containerId, pod }: RecordSubject): readonly string[] =>
    [sandboxId, containerId, pod].flatMap((text, index) => (text === undefined ? [] : [`${index} ${text}`]));
  for (const record of records) {
    if (record.kind === "lost" || record.subject.podUid === undefined) continue;
    for (const key of keysOf(record.subject)) known.set(key, record.subject);
  }
  const containers = new Map<string, string>();
  for (const record of records) {
    if (record.kind === "lost") continue;
    const { containerId, containerName } = record.subject;
    if (containerId !== undefined && containerName !== undefined) containers.set(containerId, containerName);
  }
  const pods = new Map<string, { pod: string; podUid: string; records: PodRecord[] }>();
  for (const record of records) {
    if (record.kind === "lost") continue;
    const { subject } = record;
    const keys = keysOf(subject);
    const whole = keys.map((key) => known.get(key)).find((one) => one !== undefined) ?? subject;
    const podUid = subject.podUid ?? whole.podUid ?? "";
    const pod = subject.pod ?? whole.pod ?? subject.sandboxId ?? "";
    if (pod === "") continue;
    const key = podUid === "" ? pod : podUid;
    const containerName = subject.containerName ?? containers.get(subject.containerId ?? "");
    const named = containerName === undefined ? subject : { ...subject, containerName };
    const found = pods.get(key) ?? { pod, podUid, records: [] };
    found.records.push({ ...record, subject: named });
    pods.delete(key);
    pods.set(key, found);
  }
  return [...pods.values()]
    .map((pod) => ({ ...pod, records: withoutRepeated(pod.records).sort((a, b) => a.at - b.at) }))
    .reverse();
}

/** A server that was killed may have told of an end before, and tells of it again. */
function withoutRepeated(records: readonly PodRecord[]): PodRecord[] {
  const ends = new Set<string>();
  return records.filter((record) => {
    if (record.kind !== "exit") return true;
    const { containerId = "", sandboxId = "" } = record.subject;
    const end = `${sandboxId} ${containerId} ${record.at}`;
    const isNew = !ends.has(end);
    ends.add(end);
    return isNew;
  });
}
