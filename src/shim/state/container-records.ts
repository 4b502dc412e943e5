/** The shim's own state of containers. */
import type { Logger } from "../lib/log.js";
import type { CgroupSettings } from "../ports/host.js";
import {
  formatContainerRecord,
  keepUnknownKeys,
  mergeCgroupSettings,
  parseContainerRecord,
  type ContainerRecord,
} from "./container-record.js";
import { RecordDirectory, type RecordCodec, type RecordDirectoryOptions } from "./record-directory.js";

export type { ContainerRecord } from "./container-record.js";

const codec: RecordCodec<ContainerRecord> = {
  kind: "container",
  subject: "container",
  idField: "containerId",
  idOf: ({ containerId }) => containerId,
  format: formatContainerRecord,
  parse: parseContainerRecord,
  keepUnknownKeys,
};

/** One record per container that has settings beyond Docker's, by its id. */
export class ContainerRecords extends RecordDirectory<ContainerRecord> {
  /** The records in `directory`, which is made when missing. Throws only when it cannot be made or listed. */
  static async open(
    directory: string,
    log: Logger,
    options?: RecordDirectoryOptions,
  ): Promise<ContainerRecords> {
    const records = new ContainerRecords(codec, directory, log, options);
    await records.load();
    return records;
  }

  /** Replaces the settings that `cgroup` names and keeps the others; makes the record when there is none. */
  async merge(containerId: string, cgroup: Partial<CgroupSettings>): Promise<void> {
    await this.putChanged(containerId, (present) => ({
      version: 1,
      containerId,
      cgroup: mergeCgroupSettings(present?.cgroup ?? { unified: {}, hugepages: [] }, cgroup),
    }));
  }
}
