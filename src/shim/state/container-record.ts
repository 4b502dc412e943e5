/** What the shim remembers of one container beyond Docker's labels, and its file. */
import type { CgroupSettings } from "../ports/host.js";
import {
  firstWrongField,
  formatRecordJson,
  isString,
  isTable,
  parseRecordJson,
  unknownKeys,
  type FieldCheck,
  type ParsedRecord,
} from "./record-json.js";

export interface ContainerRecord {
  readonly version: 1;
  readonly containerId: string;
  /** Limits that Docker has no field for: they are written to the container's cgroup after each start. */
  readonly cgroup: CgroupSettings;
}

/** As it is written: JSON has no integers beyond 2^53. */
type ContainerRecordFile = Omit<ContainerRecord, "cgroup"> & {
  readonly cgroup: Omit<CgroupSettings, "hugepages"> & {
    readonly hugepages: readonly { readonly pageSize: string; readonly limitBytes: string }[];
  };
};

type Hugepages = CgroupSettings["hugepages"][number];

/** Readable JSON; byte counts are decimal strings. */
export function formatContainerRecord(record: ContainerRecord): string {
  return formatRecordJson(record);
}

/** Reads a file. Keys that this release does not know stay in the record. Never throws. */
export function parseContainerRecord(bytes: Uint8Array): ParsedRecord<ContainerRecord> {
  const parsed = parseRecordJson(bytes);
  if (parsed.kind !== "record") return parsed;
  const value = parsed.record;
  const wrong =
    firstWrongField(value, recordChecks, "") ?? firstWrongField(value["cgroup"], cgroupChecks, "cgroup.");
  if (wrong !== undefined) return { kind: "corrupt", reason: `${wrong} is missing or malformed` };
  // The checks above cover every field of the type.
  const { cgroup, ...rest } = value as unknown as ContainerRecordFile;
  const hugepages = cgroup.hugepages.map((entry) => ({ ...entry, limitBytes: BigInt(entry.limitBytes) }));
  return { kind: "record", record: { ...rest, cgroup: { ...cgroup, hugepages } } };
}

/** `next` with the keys of `previous` that this release does not know. */
export function keepUnknownKeys(previous: ContainerRecord, next: ContainerRecord): ContainerRecord {
  return {
    ...unknownKeys(previous, Object.keys(recordChecks)),
    ...next,
    cgroup: { ...unknownKeys(previous.cgroup, Object.keys(cgroupChecks)), ...next.cgroup },
  };
}

/** `present` with each setting that `changes` names replaced: unified ones by key, hugepages by page size. */
export function mergeCgroupSettings(
  present: CgroupSettings,
  changes: Partial<CgroupSettings>,
): CgroupSettings {
  const hugepages = new Map([...present.hugepages, ...(changes.hugepages ?? [])].map(byPageSize));
  return {
    ...present,
    unified: { ...present.unified, ...changes.unified },
    hugepages: [...hugepages.values()],
  };
}

function byPageSize(entry: Hugepages): readonly [string, Hugepages] {
  return [entry.pageSize, entry];
}

const recordChecks: Record<keyof ContainerRecord, FieldCheck> = {
  version: (value) => value === 1,
  containerId: isString,
  cgroup: isTable,
};

const cgroupChecks: Record<keyof CgroupSettings, FieldCheck> = {
  unified: (value) => isTable(value) && Object.values(value).every(isString),
  hugepages: (value) => Array.isArray(value) && value.every(isHugepages),
};

function isHugepages(value: unknown): boolean {
  if (!isTable(value)) return false;
  const { pageSize, limitBytes } = value;
  return isString(pageSize) && isString(limitBytes) && /^\d{1,20}$/.test(limitBytes);
}
