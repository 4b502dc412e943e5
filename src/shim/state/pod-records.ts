/** The shim's own state of pods: in memory for every reader, on disk for the next start. */
import { dirname, join } from "node:path";
import { removeFileDurably, sweepTemporaryFiles, writeFileAtomically } from "../base/atomic-file.js";
import { createDirectory, namesIn } from "../base/directories.js";
import { messageOf, ShimError } from "../base/errors.js";
import { FileLanes, isFileKey } from "../base/file-keys.js";
import type { Logger } from "../base/log.js";
import { quarantineFile } from "../base/quarantine.js";
import { readRegularFile } from "../base/regular-file.js";
import {
  formatPodRecord,
  keepUnknownKeys,
  parsePodRecord,
  type ParsedRecord,
  type PodRecord,
} from "./pod-record.js";

export type { PodNetworkRecord, PodRecord } from "./pod-record.js";

export interface PodRecordsOptions {
  /** Where corrupt files go; `quarantine` beside the directory unless given. */
  readonly quarantineDirectory?: string;
  /** For tests. */
  readonly writeFile?: typeof writeFileAtomically;
  readonly removeFile?: typeof removeFileDurably;
}

export type PodRecordListener = (sandboxId: string, record: PodRecord | undefined) => void;

const suffix = ".json";
const temporaryPrefix = ".dockershim-";
const temporaryNames = [/^\.dockershim-[0-9a-f]{16}$/];
const temporaryAgeMs = 60_000;
const maximumFileBytes = 4 * 1024 * 1024;

/**
 * One file per pod, `<directory>/<sandbox id>.json`. Changes of one pod run one after the other, in order of arrival.
 *
 * The disk goes first: memory changes only after the write is durable. So nobody can act upon a state that a crash
 * would take back, and a call that failed has changed nothing that a reader sees. The one exception lies on the safe
 * side: when only the flush of the directory failed, the disk may already hold what memory does not, and the retry
 * that the error asks for brings them together.
 */
export class PodRecords {
  readonly #lanes = new FileLanes();
  readonly #records = new Map<string, PodRecord>();
  readonly #listeners = new Set<PodRecordListener>();

  private constructor(
    private readonly directory: string,
    private readonly log: Logger,
    private readonly options: PodRecordsOptions,
  ) {}

  /**
   * Makes the directory where it is missing, removes what crashed writers left, and loads all records. A file that
   * cannot be understood is moved to the quarantine and reported, one of a later release is reported and left alone;
   * neither is fatal. Throws when the directory cannot be made or listed.
   */
  static async open(directory: string, log: Logger, options: PodRecordsOptions = {}): Promise<PodRecords> {
    const records = new PodRecords(directory, log, options);
    await createDirectory(directory, 0o700);
    try {
      await sweepTemporaryFiles(directory, { patterns: temporaryNames, olderThanMs: temporaryAgeMs });
    } catch (error) {
      log.error({ err: messageOf(error) }, "temporary files of a crashed writer cannot be removed");
    }
    for (const name of await namesIn(directory)) {
      const id = name.endsWith(suffix) ? name.slice(0, -suffix.length) : "";
      if (isFileKey(id)) await records.#load(id);
    }
    return records;
  }

  get(sandboxId: string): PodRecord | undefined {
    return this.#records.get(sandboxId);
  }

  all(): Iterable<PodRecord> {
    return this.#records.values();
  }

  /** Calls `listener` after each change, with undefined for a removal. Returns what ends that. */
  onChange(listener: PodRecordListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Stores the record, durably when the promise resolves. Throws as `fileError` describes. */
  async put(record: PodRecord): Promise<void> {
    const id = record.sandboxId;
    await this.#inLane("write", id, () => this.#write(id, record));
  }

  /** Replaces the record by `change(record)`; no other change of the pod comes between. `notFound` when there is none. */
  async update(sandboxId: string, change: (record: PodRecord) => PodRecord): Promise<PodRecord> {
    return this.#inLane("update", sandboxId, async () => {
      const present = this.#records.get(sandboxId);
      if (present === undefined) {
        throw new ShimError("notFound", `update record of sandbox "${sandboxId}": no such record`, {
          sandboxId,
        });
      }
      const changed = change(present);
      return changed === present ? present : this.#write(sandboxId, changed);
    });
  }

  /** Succeeds also when there is none. */
  async remove(sandboxId: string): Promise<void> {
    if (!isFileKey(sandboxId)) return;
    const { removeFile = removeFileDurably } = this.options;
    await this.#inLane("remove", sandboxId, async () => {
      await removeFile(this.#path(sandboxId));
      if (this.#records.delete(sandboxId)) this.#tell(sandboxId, undefined);
    });
  }

  #inLane<T>(verb: string, sandboxId: string, work: () => Promise<T>): Promise<T> {
    return this.#lanes.run(
      sandboxId,
      `${verb} record of sandbox ${JSON.stringify(sandboxId.slice(0, 256))}`,
      work,
    );
  }

  async #write(sandboxId: string, wanted: PodRecord): Promise<PodRecord> {
    const record = keepUnknownKeys(this.#records.get(sandboxId), wanted);
    const text = formatPodRecord(record);
    const problem = this.#problemOf(sandboxId, parsePodRecord(new TextEncoder().encode(text)));
    if (problem !== undefined || !isFileKey(sandboxId)) {
      const reason = problem ?? "the id cannot be a file name";
      throw new ShimError(
        "internal",
        `write record of sandbox ${JSON.stringify(sandboxId.slice(0, 256))}: ${reason}`,
      );
    }
    const { writeFile = writeFileAtomically } = this.options;
    await createDirectory(this.directory, 0o700);
    await writeFile(this.#path(sandboxId), text, { mode: 0o600, temporaryPrefix });
    this.#records.set(sandboxId, record);
    this.#tell(sandboxId, record);
    return record;
  }

  async #load(id: string): Promise<void> {
    const path = this.#path(id);
    try {
      const file = await readRegularFile(path, maximumFileBytes);
      if (file.kind === "absent") return;
      const parsed: ParsedRecord =
        file.kind === "unfit" ? { kind: "corrupt", reason: file.reason } : parsePodRecord(file.bytes);
      const problem = this.#problemOf(id, parsed);
      if (problem === undefined && parsed.kind === "record") {
        this.#records.set(id, parsed.record);
      } else if (parsed.kind === "newer") {
        this.log.error({ sandboxId: id, path, reason: problem }, "pod record of a later release, ignored");
      } else {
        const { quarantineDirectory = join(dirname(this.directory), "quarantine") } = this.options;
        const quarantined = await quarantineFile(path, quarantineDirectory, "pod");
        this.log.error(
          { sandboxId: id, path, reason: problem, quarantined },
          "corrupt pod record, moved to the quarantine",
        );
      }
    } catch (error) {
      // A file that cannot be read or moved must not keep the node from starting: its pod is like one without a record.
      this.log.error({ sandboxId: id, path, err: messageOf(error) }, "pod record cannot be read, ignored");
    }
  }

  #problemOf(id: string, parsed: ParsedRecord): string | undefined {
    if (parsed.kind === "corrupt") return parsed.reason;
    if (parsed.kind === "newer") return `version ${String(parsed.version)} is not known`;
    return parsed.record.sandboxId === id ? undefined : "the sandboxId is not that of the file name";
  }

  #tell(sandboxId: string, record: PodRecord | undefined): void {
    for (const listener of this.#listeners) {
      try {
        listener(sandboxId, record);
      } catch (error) {
        // The change has been made; its caller must not be told otherwise.
        this.log.error({ sandboxId, err: messageOf(error) }, "listener of pod records failed");
      }
    }
  }

  #path(sandboxId: string): string {
    return join(this.directory, sandboxId + suffix);
  }
}
