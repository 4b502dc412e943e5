/** What this program remembers of containers with limits beyond Docker's fields, and the files that keep it. */
import { isDeepStrictEqual } from "node:util";
import type { ProcessMark } from "../../lib/linux/process-mark.js";
import type { Logger } from "../../lib/log.js";
import type { OciChanges } from "../../domain/oci-changes.js";
import type { CgroupSettings } from "../ports/host.js";
import { RecordDirectory, type RecordDirectoryOptions } from "../../lib/files/record-directory.js";
import { isString, isTable, type RecordType, type SchemaOf } from "../../lib/files/record-format.js";

export interface ContainerRecord {
  readonly version: 1;
  readonly containerId: string;
  /** Limits that Docker has no field for: they are written to the container's cgroup after each start. */
  readonly cgroup: CgroupSettings;
  /** What the OCI runtime in front of runc is to change at each start. */
  readonly oci?: OciChanges;
  /** While it is being checkpointed, and until the next process has ended what a killed one had begun. */
  readonly checkpoint?: CheckpointUnderWay;
}

export interface CheckpointUnderWay {
  /** Of the archive. */
  readonly location: string;
  /** The process of this program that makes it. */
  readonly server: ProcessMark;
}

/** As in the file, where byte counts are decimal strings. */
type ContainerRecordFile = Omit<ContainerRecord, "cgroup"> & {
  readonly cgroup: Omit<CgroupSettings, "hugepages"> & {
    readonly hugepages: readonly { readonly pageSize: string; readonly limitBytes: string }[];
  };
};

const noLimits: CgroupSettings = { unified: {}, hugepages: [] };

type Hugepages = CgroupSettings["hugepages"][number];

export const containerRecordType: RecordType<ContainerRecord> = {
  kind: "container",
  subject: "container",
  idField: "containerId",
  idOf: ({ containerId }) => containerId,
  schema: {
    version: (value) => value === 1,
    containerId: isString,
    cgroup: {
      unified: (value) => isTable(value) && Object.values(value).every(isString),
      hugepages: (value) => Array.isArray(value) && value.every(isHugepages),
    } satisfies SchemaOf<CgroupSettings>,
    oci: isOciChanges,
    checkpoint: isCheckpoint,
  } satisfies SchemaOf<ContainerRecord>,
  fromFile: (object) => {
    // The schema covers every field of the type.
    const { cgroup, ...rest } = object as unknown as ContainerRecordFile;
    const hugepages = cgroup.hugepages.map((entry) => ({ ...entry, limitBytes: BigInt(entry.limitBytes) }));
    return { ...rest, cgroup: { ...cgroup, hugepages } };
  },
};

/** One record per container with settings beyond Docker's, by its id. */
export class ContainerRecords extends RecordDirectory<ContainerRecord> {
  /** The records in `directory`, which is created when missing. Throws only when it cannot be created or listed. */
  static async open(
    directory: string,
    log: Logger,
    options?: RecordDirectoryOptions,
  ): Promise<ContainerRecords> {
    const records = new ContainerRecords(containerRecordType, directory, log, options);
    await records.load();
    return records;
  }

  /** Notes the checkpoint that begins, or with undefined that it has ended. */
  async noteCheckpoint(containerId: string, checkpoint: CheckpointUnderWay | undefined): Promise<void> {
    const present = this.get(containerId);
    if (checkpoint !== undefined) {
      await this.putChanged(containerId, (kept = { version: 1, containerId, cgroup: noLimits }) => ({
        ...kept,
        checkpoint,
      }));
    } else if (present?.checkpoint !== undefined) {
      const { checkpoint: _ended, ...rest } = present;
      const hasMore = rest.oci !== undefined || !isDeepStrictEqual(rest.cgroup, noLimits);
      await (hasMore ? this.put(rest) : this.remove(containerId));
    }
  }

  /** Replaces the settings that `cgroup` names and keeps the others; creates the record when there is none. */
  async merge(containerId: string, cgroup: Partial<CgroupSettings>): Promise<void> {
    await this.putChanged(containerId, (present) => ({
      ...present,
      version: 1,
      containerId,
      cgroup: mergeCgroupSettings(present?.cgroup ?? noLimits, cgroup),
    }));
  }
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

function isCheckpoint(value: unknown): boolean {
  if (value === undefined) return true;
  const { location, server } = isTable(value) ? value : {};
  return (
    isString(location) &&
    isTable(server) &&
    Number.isSafeInteger(server["pid"]) &&
    isString(server["startTime"])
  );
}

function isOciChanges(value: unknown): boolean {
  if (value === undefined) return true;
  if (!isTable(value)) return false;
  const { ambientCapabilities = [], mountOptions = {}, mappedMounts = {}, users, limits = [] } = value;
  const { hooks = {}, mounts = [], deviceOwners = {} } = value;
  return (
    isListOfStrings(ambientCapabilities) &&
    isTable(mountOptions) &&
    Object.values(mountOptions).every(isListOfStrings) &&
    isTable(mappedMounts) &&
    Object.values(mappedMounts).every(isUserNamespace) &&
    (users === undefined || isUserNamespace(users)) &&
    isListOfStrings(limits) &&
    isTable(hooks) &&
    Object.values(hooks).every((each) => Array.isArray(each) && each.every(isHook)) &&
    Array.isArray(mounts) &&
    mounts.every(isMount) &&
    isTable(deviceOwners) &&
    Object.values(deviceOwners).every(isTable)
  );
}

function isHook(value: unknown): boolean {
  if (!isTable(value)) return false;
  const { path, args = [], env = [] } = value;
  return isString(path) && isListOfStrings(args) && isListOfStrings(env);
}

function isMount(value: unknown): boolean {
  if (!isTable(value)) return false;
  const { destination, type, source, options } = value;
  return [destination, type, source].every(isString) && isListOfStrings(options);
}

function isUserNamespace(value: unknown): boolean {
  return isTable(value) && [value["uids"], value["gids"]].every(isMappedIds);
}

function isMappedIds(value: unknown): boolean {
  return isTable(value) && [value["hostId"], value["size"]].every(Number.isSafeInteger);
}

function isListOfStrings(value: unknown): boolean {
  return Array.isArray(value) && value.every(isString);
}

function isHugepages(value: unknown): boolean {
  if (!isTable(value)) return false;
  const { pageSize, limitBytes } = value;
  return isString(pageSize) && isString(limitBytes) && /^\d{1,20}$/.test(limitBytes);
}
