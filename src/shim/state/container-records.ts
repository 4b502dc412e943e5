/** What this program remembers of containers with limits beyond Docker's fields, and the files that keep it. */
import { isDeepStrictEqual } from "node:util";
import type { ProcessMark } from "../../lib/linux/process-mark.js";
import type { Logger } from "../../lib/log.js";
import type { OciChanges } from "../../domain/oci-changes.js";
import type { CgroupSettings } from "../ports/host.js";
import { RecordDirectory, type RecordDirectoryOptions } from "../../lib/files/record-directory.js";
import {
  isString,
  isTable,
  listOf,
  objectOf,
  optional,
  type RecordType,
  type SchemaOf,
  tableOf,
} from "../../lib/files/record-format.js";

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

function isByteCount(value: unknown): boolean {
  return isString(value) && /^\d{1,20}$/.test(value);
}

const isWords = listOf(isString);
const isMappedIds = objectOf({ hostId: Number.isSafeInteger, size: Number.isSafeInteger });
const isUserNamespace = objectOf({ uids: isMappedIds, gids: isMappedIds });
const isHook = objectOf({ path: isString, args: optional(isWords), env: optional(isWords) });
const isMount = objectOf({ destination: isString, type: isString, source: isString, options: isWords });

const ociSchema = {
  ambientCapabilities: optional(isWords),
  mountOptions: optional(tableOf(isWords)),
  users: optional(isUserNamespace),
  mappedMounts: optional(tableOf(isUserNamespace)),
  hooks: optional(tableOf(listOf(isHook))),
  mounts: optional(listOf(isMount)),
  deviceOwners: optional(tableOf(isTable)),
  limits: optional(isWords),
} satisfies SchemaOf<OciChanges>;

const checkpointSchema = {
  location: isString,
  server: { pid: Number.isSafeInteger, startTime: isString } satisfies SchemaOf<ProcessMark>,
} satisfies SchemaOf<CheckpointUnderWay>;

export const containerRecordType: RecordType<ContainerRecord> = {
  kind: "container",
  subject: "container",
  idField: "containerId",
  idOf: ({ containerId }) => containerId,
  schema: {
    version: (value) => value === 1,
    containerId: isString,
    cgroup: {
      unified: tableOf(isString),
      hugepages: listOf(objectOf({ pageSize: isString, limitBytes: isByteCount })),
    } satisfies SchemaOf<CgroupSettings>,
    oci: optional(objectOf(ociSchema)),
    checkpoint: optional(objectOf(checkpointSchema)),
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
