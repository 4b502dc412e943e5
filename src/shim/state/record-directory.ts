/** Records of the shim's own state: in memory for every reader, on disk for the next start. */
import { dirname, join } from "node:path";
import {
  ownTemporaryName,
  removeFileDurably,
  sweepTemporaryFiles,
  writeFileAtomically,
} from "../lib/files/atomic-file.js";
import { createDirectory, namesIn } from "../lib/files/directories.js";
import { messageOf, ShimError } from "../lib/errors.js";
import { FileLocks, isFileKey, quarantineFile, readRegularFile } from "../lib/files/state-files.js";
import type { Logger } from "../lib/log.js";
import type { ParsedRecord } from "./record-json.js";

/** What tells one kind of record from another. */
export interface RecordCodec<R> {
  /** Whose records they are, for messages. */
  readonly kind: "pod" | "container";
  /** What their ids are ids of. */
  readonly subject: "sandbox" | "container";
  /** The name of the id in the record and in log lines. */
  readonly idField: "sandboxId" | "containerId";
  idOf(record: R): string;
  format(record: R): string;
  /** Never throws. */
  parse(bytes: Uint8Array): ParsedRecord<R>;
  /** `next` with the keys of `previous` that this release does not know. */
  keepUnknownKeys(previous: R, next: R): R;
}

export interface RecordDirectoryOptions {
  /** Where corrupt files go; `quarantine` beside the directory unless given. */
  readonly quarantineDirectory?: string;
  /** For tests. */
  readonly writeFile?: typeof writeFileAtomically;
  readonly removeFile?: typeof removeFileDurably;
}

export type RecordListener<R> = (id: string, record: R | undefined) => void;

const suffix = ".json";
const temporaryPrefix = ".dockershim-";
const maximumFileBytes = 4 * 1024 * 1024;

/**
 * One file per record, `<directory>/<id>.json`. Changes of one record run one after the other, in order of arrival.
 *
 * The disk goes first: memory changes only after the write is durable. So nobody can act upon a state that a crash
 * would take back, and a call that failed has changed nothing that a reader sees. The one exception lies on the safe
 * side: when only the flush of the directory failed, the disk may already hold what memory does not, and the retry
 * that the error asks for brings them together.
 */
export abstract class RecordDirectory<R> {
  readonly #locks = new FileLocks();
  readonly #records = new Map<string, R>();
  readonly #listeners = new Set<RecordListener<R>>();

  protected constructor(
    private readonly codec: RecordCodec<R>,
    private readonly directory: string,
    private readonly log: Logger,
    private readonly options: RecordDirectoryOptions = {},
  ) {}

  /**
   * Makes the directory where it is missing, removes what crashed writers left, and loads all records. A file that
   * cannot be understood is moved to the quarantine and reported, one of a later release is reported and left alone;
   * neither is fatal. Throws when the directory cannot be made or listed.
   */
  protected async load(): Promise<void> {
    await createDirectory(this.directory, 0o700);
    try {
      // The state directory is this process's alone.
      await sweepTemporaryFiles(this.directory, { patterns: [ownTemporaryName] });
    } catch (error) {
      this.log.error({ err: messageOf(error) }, "temporary files of a crashed writer cannot be removed");
    }
    for (const name of await namesIn(this.directory)) {
      const id = name.endsWith(suffix) ? name.slice(0, -suffix.length) : "";
      if (isFileKey(id)) await this.#load(id);
    }
  }

  get(id: string): R | undefined {
    return this.#records.get(id);
  }

  all(): Iterable<R> {
    return this.#records.values();
  }

  /** Calls `listener` after each change, with undefined for a removal. Returns what ends that. */
  onChange(listener: RecordListener<R>): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Stores the record, durably when the promise resolves. Throws as `fileError` describes. */
  async put(record: R): Promise<void> {
    const id = this.codec.idOf(record);
    await this.#locked("write", id, () => this.#write(id, record));
  }

  /** Replaces the record by `change(record)`; no other change of it comes between. `notFound` when there is none. */
  async update(id: string, change: (record: R) => R): Promise<R> {
    return this.putChanged(id, (present) => {
      if (present === undefined) {
        const { subject, idField } = this.codec;
        throw new ShimError("notFound", `update record of ${subject} "${id}": no such record`, {
          [idField]: id,
        });
      }
      return change(present);
    });
  }

  /** As `update`, but `change` also gets undefined when there is no record, and then makes the first one. */
  protected putChanged(id: string, change: (record: R | undefined) => R): Promise<R> {
    return this.#locked("update", id, async () => {
      const present = this.#records.get(id);
      const changed = change(present);
      return changed === present ? changed : this.#write(id, changed);
    });
  }

  /** Succeeds also when there is none. */
  async remove(id: string): Promise<void> {
    if (!isFileKey(id)) return;
    const { removeFile = removeFileDurably } = this.options;
    await this.#locked("remove", id, async () => {
      await removeFile(this.#path(id));
      if (this.#records.delete(id)) this.#tell(id, undefined);
    });
  }

  #locked<T>(verb: string, id: string, work: () => Promise<T>): Promise<T> {
    return this.#locks.run(id, this.#action(verb, id), work);
  }

  #action(verb: string, id: string): string {
    return `${verb} record of ${this.codec.subject} ${JSON.stringify(id.slice(0, 256))}`;
  }

  async #write(id: string, wanted: R): Promise<R> {
    const previous = this.#records.get(id);
    const record = previous === undefined ? wanted : this.codec.keepUnknownKeys(previous, wanted);
    const text = this.codec.format(record);
    const problem = this.#problemOf(id, this.codec.parse(new TextEncoder().encode(text)));
    if (problem !== undefined || !isFileKey(id)) {
      const reason = problem ?? "the id cannot be a file name";
      throw new ShimError("internal", `${this.#action("write", id)}: ${reason}`);
    }
    const { writeFile = writeFileAtomically } = this.options;
    await createDirectory(this.directory, 0o700);
    await writeFile(this.#path(id), text, { mode: 0o600, temporaryPrefix });
    this.#records.set(id, record);
    this.#tell(id, record);
    return record;
  }

  async #load(id: string): Promise<void> {
    const { kind, idField } = this.codec;
    const path = this.#path(id);
    const fields = { [idField]: id, path };
    try {
      const file = await readRegularFile(path, maximumFileBytes);
      if (file.kind === "absent") return;
      const parsed: ParsedRecord<R> =
        file.kind === "unfit" ? { kind: "corrupt", reason: file.reason } : this.codec.parse(file.bytes);
      const reason = this.#problemOf(id, parsed);
      if (reason === undefined && parsed.kind === "record") {
        this.#records.set(id, parsed.record);
      } else if (parsed.kind === "newer") {
        this.log.error({ ...fields, reason }, `${kind} record of a later release, ignored`);
      } else {
        const { quarantineDirectory = join(dirname(this.directory), "quarantine") } = this.options;
        const quarantined = await quarantineFile(path, quarantineDirectory, kind);
        this.log.error({ ...fields, reason, quarantined }, `corrupt ${kind} record, moved to the quarantine`);
      }
    } catch (error) {
      // A file that cannot be read or moved must not keep the node from starting: it is as if there were no record.
      this.log.error({ ...fields, err: messageOf(error) }, `${kind} record cannot be read, ignored`);
    }
  }

  #problemOf(id: string, parsed: ParsedRecord<R>): string | undefined {
    if (parsed.kind === "corrupt") return parsed.reason;
    if (parsed.kind === "newer") return `version ${String(parsed.version)} is not known`;
    return this.codec.idOf(parsed.record) === id
      ? undefined
      : `the ${this.codec.idField} is not that of the file name`;
  }

  #tell(id: string, record: R | undefined): void {
    for (const listener of this.#listeners) {
      try {
        listener(id, record);
      } catch (error) {
        // The change has been made; its caller must not be told otherwise.
        const { kind, idField } = this.codec;
        this.log.error({ [idField]: id, err: messageOf(error) }, `listener of ${kind} records failed`);
      }
    }
  }

  #path(id: string): string {
    return join(this.directory, id + suffix);
  }
}
