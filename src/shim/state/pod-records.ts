/** The shim's own state of pods. */
import type { Logger } from "../lib/log.js";
import { formatPodRecord, keepUnknownKeys, parsePodRecord, type PodRecord } from "./pod-record.js";
import {
  RecordDirectory,
  type RecordCodec,
  type RecordDirectoryOptions,
  type RecordListener,
} from "./record-directory.js";

export type { PodNetworkRecord, PodRecord } from "./pod-record.js";
export type PodRecordsOptions = RecordDirectoryOptions;
export type PodRecordListener = RecordListener<PodRecord>;

const codec: RecordCodec<PodRecord> = {
  kind: "pod",
  subject: "sandbox",
  idField: "sandboxId",
  idOf: ({ sandboxId }) => sandboxId,
  format: formatPodRecord,
  parse: parsePodRecord,
  keepUnknownKeys,
};

/** One record per pod, by the id of its sandbox. */
export class PodRecords extends RecordDirectory<PodRecord> {
  /** The records in `directory`, which is made when missing. Throws only when it cannot be made or listed. */
  static async open(directory: string, log: Logger, options?: PodRecordsOptions): Promise<PodRecords> {
    const records = new PodRecords(codec, directory, log, options);
    await records.load();
    return records;
  }
}
