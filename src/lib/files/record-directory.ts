/** Records that a program keeps for itself: in memory for readers, on disk for the next start. */
import { dirname, join } from "node:path";
import {
  inDirectory,
  ownTemporaryName,
  removeFileSync,
  replaceFileSync,
  sweepTemporaryFiles,
  writeFileAtomically,
} from "./atomic-file.js";
import { createOwnDirectory, namesInSync } from "./directories.js";
import type { Flusher } from "./flusher.js";
import { messageOf, ShimError } from "../errors.js";
import {
  formatRecord,
  keepUnknownKeys,
  type ParsedRecord,
  parseRecord,
  recordIn,
  type RecordType,
} from "./record-format.js";
import { isFileKey, quarantineFile, readRegularFileSync } from "./state-files.js";
import type { Logger } from "../log.js";

export interface RecordDirectoryOptions {
  /** Where corrupt files go; `quarantine` beside the directory unless given. */
  readonly quarantineDirectory?: string;
  /** Flushes the records in the background. Without one they are not flushed. */
  readonly flusher?: Flusher;
  /** How long those wait that are stored later. */
  readonly delayMs?: number;
  /** For tests. */
  readonly writeFile?: typeof replaceFileSync;
  readonly removeFile?: typeof removeFileSync;
}

type RecordListener<R> = (id: string, record: R | undefined) => void;

const suffix = ".json";
const fileOptions = { mode: 0o600, temporaryPrefix: ".dockershim-" };
const directoryMode = 0o700;
const usualDelayMs = 1_000;
const maximumFileBytes = 4 * 1024 * 1024;

/**
 * One file per record, `<directory>/<id>.json`. A change reads, writes and shows in one turn: no other one comes
 * in between.
 *
 * Memory changes only after the file is in place: readers never see a state that a kill would revert, and a
 * failed call changes nothing that they see. The flush to the disk follows. What may be reverted is stored later:
 * often it is replaced or removed before.
 */
export abstract class RecordDirectory<R extends object> {
  readonly #records = new Map<string, R>();
  /** Ids that have a file, also one that cannot be used: the others need no removal. */
  readonly #files = new Set<string>();
  /** Versions of files that a later release wrote, by their ids: they are never written over. */
  readonly #later = new Map<string, number>();
  readonly #listeners = new Set<RecordListener<R>>();
  /** Ids of records of which memory is ahead of the disk, with the failure to store them that was logged. */
  readonly #late = new Map<string, string | undefined>();
  #timer: NodeJS.Timeout | undefined;

  protected constructor(
    private readonly type: RecordType<R>,
    private readonly directory: string,
    private readonly log: Pick<Logger, "error">,
    private readonly options: RecordDirectoryOptions = {},
  ) {}

  /**
   * Creates the directory if it is missing, removes temporary files of crashed writers, and loads all
   * records. A corrupt file is moved to the quarantine and reported; a file of a later release is reported
   * and left alone. Throws when the directory cannot be created or listed.
   */
  protected async load(): Promise<void> {
    await createOwnDirectory(this.directory, directoryMode);
    try {
      // The state directory is this process's alone.
      sweepTemporaryFiles(this.directory, {
        patterns: [ownTemporaryName, ...(this.type.temporary ?? [])],
      });
    } catch (error) {
      this.log.error({ err: messageOf(error) }, "cannot remove the temporary files of a crashed writer");
    }
    for (const name of namesInSync(this.directory)) {
      const id = name.endsWith(suffix) ? name.slice(0, -suffix.length) : "";
      if (!isFileKey(id)) continue;
      this.#files.add(id);
      await this.#load(id);
    }
  }

  get(id: string): R | undefined {
    return this.#records.get(id);
  }

  all(): Iterable<R> {
    return this.#records.values();
  }

  /** Calls `listener` after each change, with undefined for a removal. The returned function unsubscribes. */
  onChange(listener: RecordListener<R>): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Stores the record: a kill loses it no more. Throws as `fileError` describes. */
  async put(record: R): Promise<void> {
    await this.#change(() => this.#write(this.type.idOf(record), record));
  }

  /** Waits until the record as stored last outlives a power cut. Throws as `Flusher.flushed` does. */
  async flushed(id: string, signal: AbortSignal): Promise<void> {
    await this.options.flusher?.flushed(this.#path(id), signal);
  }

  /** Replaces the record by `change(record)`, alone. `notFound` when there is none. */
  async update(id: string, change: (record: R) => R): Promise<R> {
    return this.putChanged(id, (present) => {
      if (present === undefined) {
        const message = `update record of ${this.type.subject} "${id}": no such record`;
        throw new ShimError("notFound", message, { [this.type.idField]: id });
      }
      return change(present);
    });
  }

  /** Shows readers a record that is stored within a second, unless it is replaced or removed before. */
  protected putLater(record: R): void {
    this.#storeLater(this.type.idOf(record));
    this.#show(this.type.idOf(record), record);
  }

  #storeLater(id: string): void {
    this.#late.set(id, this.#late.get(id));
    this.#timer ??= setTimeout(() => void this.storeLate(), this.options.delayMs ?? usualDelayMs).unref();
  }

  /** Stores what waits; what cannot be stored now waits on. Never throws. */
  async storeLate(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    for (const id of [...this.#late.keys()]) {
      const record = this.#records.get(id);
      if (record === undefined) continue;
      await this.put(record).catch((error: unknown) => {
        const err = messageOf(error);
        if (this.#late.get(id) !== err)
          this.log.error({ [this.type.idField]: id, err }, "cannot store a record");
        this.#late.set(id, err);
        this.#storeLater(id);
      });
    }
  }

  /** As `update`, but without a record `change` gets undefined, and its result becomes the first one. */
  protected putChanged(id: string, change: (record: R | undefined) => R): Promise<R> {
    return this.#change(() => {
      const present = this.#records.get(id);
      const changed = change(present);
      return changed === present ? changed : this.#write(id, changed);
    });
  }

  /** As `put`, and outlives a power cut when it returns. Calls for one id must not overlap. */
  protected async putFlushed(wanted: R): Promise<void> {
    const id = this.type.idOf(wanted);
    const { path, record, text } = this.#checked(id, wanted);
    this.#files.add(id);
    // Else the record before could be written over this one, before readers see this one.
    const wasLate = this.#late.delete(id);
    try {
      await writeFileAtomically(path, text, { ...fileOptions, directoryMode });
    } catch (error) {
      if (wasLate) this.#storeLater(id);
      throw error;
    }
    this.#show(id, record);
  }

  /** Succeeds also when there is none. After a power cut the record may be back. */
  async remove(id: string): Promise<void> {
    if (!isFileKey(id)) return;
    const { removeFile = removeFileSync, flusher } = this.options;
    await this.#change(() => {
      if (this.#files.has(id)) removeFile(this.#path(id), flusher);
      this.#late.delete(id);
      this.#files.delete(id);
      this.#later.delete(id);
      if (this.#records.delete(id)) this.#notify(id, undefined);
    });
  }

  #change<T>(work: () => T): Promise<T> {
    return inDirectory(this.directory, directoryMode, work);
  }

  /** Flushed as the options say. */
  #write(id: string, wanted: R): R {
    const { path, record, text } = this.#checked(id, wanted);
    const { writeFile = replaceFileSync, flusher } = this.options;
    const isNew = !this.#files.has(id);
    writeFile(path, text, { ...fileOptions, flush: flusher && { flusher, isNew } });
    this.#files.add(id);
    this.#late.delete(id);
    this.#show(id, record);
    return record;
  }

  /** What to write, and where. `precondition`: see `#later`. */
  #checked(id: string, wanted: R): { readonly path: string; readonly record: R; readonly text: string } {
    const action = `write record of ${this.type.subject} ${JSON.stringify(id.slice(0, 256))}`;
    const later = this.#later.get(id);
    if (later !== undefined)
      throw new ShimError(
        "precondition",
        `${action}: its file has version ${later}, of a later release of dockershim, and is left as it is`,
        { [this.type.idField]: id },
      );
    const previous = this.#records.get(id);
    const record = previous === undefined ? wanted : keepUnknownKeys(previous, wanted, this.type.schema);
    const text = (this.type.format ?? formatRecord)(record);
    const problem = this.#problemOf(id, recordIn(text, this.type));
    if (problem !== undefined || !isFileKey(id)) {
      const reason = problem ?? "the id cannot be a file name";
      throw new ShimError("internal", `${action}: ${reason}`);
    }
    return { path: this.#path(id), record, text };
  }

  #show(id: string, record: R): void {
    this.#records.set(id, record);
    this.#notify(id, record);
  }

  async #load(id: string): Promise<void> {
    const { kind, idField } = this.type;
    const path = this.#path(id);
    const fields = { [idField]: id, path };
    try {
      const file = readRegularFileSync(path, maximumFileBytes);
      if (file.kind === "absent") return;
      const parsed: ParsedRecord<R> =
        file.kind === "unfit" ? { kind: "corrupt", reason: file.reason } : parseRecord(file.bytes, this.type);
      const reason = this.#problemOf(id, parsed);
      if (reason === undefined && parsed.kind === "record") {
        this.#records.set(id, parsed.record);
      } else if (parsed.kind === "newer") {
        this.#later.set(id, parsed.version);
        this.log.error({ ...fields, reason }, "record of a later release, ignored");
      } else {
        const { quarantineDirectory = join(dirname(this.directory), "quarantine") } = this.options;
        const quarantined = await quarantineFile(path, quarantineDirectory, kind);
        this.log.error({ ...fields, reason, quarantined }, "corrupt record, moved to the quarantine");
      }
    } catch (error) {
      // A file that cannot be read or moved must not keep the program from starting.
      this.log.error({ ...fields, err: messageOf(error) }, "cannot read a record, ignored");
    }
  }

  #problemOf(id: string, parsed: ParsedRecord<R>): string | undefined {
    if (parsed.kind === "corrupt") return parsed.reason;
    if (parsed.kind === "newer") return `version ${parsed.version} is not known`;
    return this.type.idOf(parsed.record) === id
      ? undefined
      : `the ${this.type.idField} is not that of the file name`;
  }

  #notify(id: string, record: R | undefined): void {
    for (const listener of this.#listeners) {
      try {
        listener(id, record);
      } catch (error) {
        // The change is on file: its caller must not get an error.
        this.log.error({ [this.type.idField]: id, err: messageOf(error) }, "listener of records failed");
      }
    }
  }

  #path(id: string): string {
    return join(this.directory, id + suffix);
  }
}
