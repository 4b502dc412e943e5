/** Checkpoints as files of a directory that dockershim and cri-dockerd can take over, and were taken over from. */
import { join, resolve } from "node:path";
import {
  inDirectory,
  ownTemporaryName,
  removeFileSync,
  replaceFileSync,
  sweepTemporaryFiles,
} from "../src/lib/files/atomic-file.js";
import { createOwnDirectory, KnownNames } from "../src/lib/files/directories.js";
import type { Flusher } from "../src/lib/files/flusher.js";
import { aggregate, messageOf, ShimError } from "../src/lib/errors.js";
import { FileLocks, isFileKey, quarantineFile, readRegularFileSync } from "../src/lib/files/state-files.js";
import type { Logger } from "../src/lib/log.js";
import type { CheckpointStore, PodSandboxCheckpoint } from "../src/shim/ports/checkpoint-store.js";
import { decodeCheckpoint, encodeCheckpoint, type DecodeResult, type WrittenFlavour } from "./checkpoint.js";
import { maximumFileBytes } from "./file-format.js";

export interface CheckpointDirectoryOptions {
  /** `<state directory>/sandbox` */
  readonly directory: string;
  /** Where corrupt files go: outside of `directory`, on the same file system. */
  readonly quarantineDirectory: string;
  /** Of other programs: read where ours has no file, removed from, never written or cleaned. May be missing. */
  readonly alsoRead?: readonly string[];
  /** Which of both programs can read the files that are written; dockershim unless given. */
  readonly flavour?: WrittenFlavour;
  readonly log: Logger;
  /** Flushes the files in the background. Without one they are not flushed. */
  readonly flusher?: Flusher;
  /** For tests. */
  readonly writeFile?: typeof replaceFileSync;
  /** Milliseconds, never set back. */
  readonly now?: () => number;
}

const temporaryPrefix = ".dockershim-";
const directoryMode = 0o755;
/** What Go's TempFile made of the prefix "." for dockershim and cri-dockerd, one of which may still run. */
const foreignTemporaryName = /^\.\d+$/;
const foreignTemporaryAgeMs = 60_000;
/** Kubelets list pods each second, and other programs hardly ever change these directories while this one runs. */
const lookAgainMs = 5_000;

/** The latest answer of `list`. */
interface Listed {
  readonly names: readonly (readonly string[])[];
  readonly ids: readonly string[];
  /** When, and after how many changes of our own, the directories were looked at. */
  readonly atMs: number;
  readonly changes: number;
}

/**
 * One file per sandbox, named by its id. Whatever lies in the directory without a leading dot is a sandbox to
 * dockershim, so temporary files begin with one and corrupt files are moved elsewhere.
 */
export class CheckpointDirectory implements CheckpointStore {
  readonly #locks = new FileLocks();
  readonly #others: readonly string[];
  /** Reasons by path of corrupt files that could not, or must not, be moved: so that they are reported only once. */
  readonly #corrupt = new Map<string, string>();
  #corruptCount = 0;
  /** What this process has written into our directory, by id: it needs no look. */
  readonly #written = new Map<string, PodSandboxCheckpoint>();
  readonly #names: readonly (readonly [directory: string, names: KnownNames])[];
  /** Undefined where corrupt files were left out. */
  #listed: Listed | undefined;
  #changes = 0;

  private constructor(private readonly options: CheckpointDirectoryOptions) {
    const others = (options.alsoRead ?? []).map((directory) => resolve(directory));
    this.#others = [...new Set(others)].filter((directory) => directory !== resolve(options.directory));
    this.#names = this.#directories().map((directory) => [directory, new KnownNames(directory)]);
  }

  /** Makes the directory and removes what crashed writers left. Throws as `fileError` describes. */
  static async open(options: CheckpointDirectoryOptions): Promise<CheckpointDirectory> {
    const store = new CheckpointDirectory(options);
    await createOwnDirectory(options.directory, directoryMode);
    try {
      store.sweep();
    } catch (error) {
      options.log.error({ err: messageOf(error) }, "cannot remove temporary files of a crashed writer");
    }
    return store;
  }

  /** Corrupt files found so far. */
  get corruptCount(): number {
    return this.#corruptCount;
  }

  /** Removes temporary files: all of this program, and those of other programs that are older than a minute. */
  sweep(): void {
    const { directory, log } = this.options;
    const foreign = { patterns: [foreignTemporaryName], olderThanMs: foreignTemporaryAgeMs };
    const removed = [
      ...sweepTemporaryFiles(directory, { patterns: [ownTemporaryName] }),
      ...sweepTemporaryFiles(directory, foreign),
    ];
    if (removed.length > 0)
      log.info({ directory, files: removed.length }, "removed temporary files of a crashed writer");
  }

  async put(id: string, checkpoint: PodSandboxCheckpoint): Promise<void> {
    if (!isFileKey(id))
      throw new ShimError(
        "invalid",
        `checkpoint of sandbox ${JSON.stringify(id.slice(0, 256))}: the id cannot be a file name`,
      );
    const bytes = encodeCheckpoint(checkpoint, this.options.flavour);
    const { directory, flusher, writeFile = replaceFileSync } = this.options;
    const path = join(directory, id);
    await this.#locks.run(id, `write checkpoint of sandbox "${id}"`, async () => {
      await this.#read(directory, id); // A corrupt file in the way is saved, not overwritten.
      try {
        // Each sandbox is written once.
        const flush = flusher && { flusher, isNew: true };
        await inDirectory(directory, directoryMode, () => {
          writeFile(path, bytes, { mode: 0o600, temporaryPrefix, flush });
        });
        this.#written.set(id, checkpoint);
      } finally {
        this.#changes += 1;
      }
    });
  }

  async flushed(id: string, signal: AbortSignal): Promise<void> {
    const { directory, flusher } = this.options;
    await flusher?.flushed(join(directory, id), signal);
  }

  async get(id: string): Promise<PodSandboxCheckpoint | undefined> {
    if (!isFileKey(id)) return undefined;
    const written = this.#written.get(id);
    if (written !== undefined) return written;
    // Under the lock, so that no valid file is written between the read and the quarantine of a corrupt one.
    return this.#locks.run(id, `read checkpoint of sandbox "${id}"`, async () => {
      for (const directory of this.#directories()) {
        const found = await this.#read(directory, id);
        if (found?.kind === "checkpoint") return found.checkpoint;
      }
      return undefined;
    });
  }

  /** Removes it from all directories: what stays in one keeps the sandbox in the kubelet's list for ever. */
  async remove(id: string): Promise<void> {
    if (!isFileKey(id)) return;
    const { directory: own, flusher } = this.options;
    await this.#locks.run(id, `remove checkpoint of sandbox "${id}"`, async () => {
      const removals = await Promise.allSettled(
        this.#directories().map(async (directory) => {
          const isOurs = directory === own && this.#written.has(id);
          if (!isOurs && (await this.#read(directory, id))?.kind !== "checkpoint") return;
          removeFileSync(join(directory, id), flusher);
          if (isOurs) this.#written.delete(id);
        }),
      );
      this.#changes += 1;
      const error = aggregate(
        removals.flatMap((one) => (one.status === "rejected" ? [one.reason as unknown] : [])),
      );
      if (error !== undefined) throw error;
    });
  }

  /** Ids in our directory, then those of other programs alone, whose changes are seen after five seconds. */
  async list(): Promise<readonly string[]> {
    const { now = () => performance.now() } = this.options;
    const [atMs, changes] = [now(), this.#changes];
    const listed = this.#corrupt.size === 0 ? this.#listed : undefined;
    if (listed?.changes === changes && atMs - listed.atMs < lookAgainMs) return listed.ids;
    const names = await Promise.all(this.#names.map(([, known]) => known.read()));
    if (listed !== undefined && names.every((one, at) => one === listed.names[at])) {
      this.#listed = { ...listed, atMs, changes };
      return listed.ids;
    }
    const ids = new Set<string>();
    this.#names.forEach(([directory], at) => {
      for (const name of names[at] ?? []) {
        if (isFileKey(name) && !this.#corrupt.has(join(directory, name))) ids.add(name);
      }
    });
    const answer = [...ids];
    this.#listed = this.#corrupt.size === 0 ? { names, ids: answer, atMs, changes } : undefined;
    return answer;
  }

  #directories(): readonly string[] {
    return [this.options.directory, ...this.#others];
  }

  /** What the file says, undefined when there is none. A corrupt one is dealt with before this returns. */
  async #read(directory: string, id: string): Promise<DecodeResult | undefined> {
    const path = join(directory, id);
    const file = readRegularFileSync(path, maximumFileBytes);
    if (file.kind === "absent") {
      this.#corrupt.delete(path);
      return undefined;
    }
    const found: DecodeResult =
      file.kind === "unfit" ? { kind: "corrupt", reason: file.reason } : decodeCheckpoint(file.bytes);
    if (found.kind === "checkpoint") this.#corrupt.delete(path);
    else await this.#setAside(directory, id, found);
    return found;
  }

  /** Ours is moved to the quarantine. One of another program, or of a later release, stays: a newer one can read it. */
  async #setAside(
    directory: string,
    id: string,
    { reason, isLater }: Extract<DecodeResult, { kind: "corrupt" }>,
  ): Promise<void> {
    const { quarantineDirectory, log } = this.options;
    const path = join(directory, id);
    let quarantined: string | undefined;
    let failure: string | undefined;
    if (directory === this.options.directory && isLater !== true) {
      try {
        quarantined = await quarantineFile(path, quarantineDirectory, "sandbox");
      } catch (error) {
        failure = messageOf(error);
      }
    }
    const known = this.#corrupt.get(path) === reason;
    if (quarantined === undefined) this.#corrupt.set(path, reason);
    else {
      this.#corrupt.delete(path);
      this.#changes += 1;
    }
    if (known) return;
    this.#corruptCount += 1;
    log.error(
      { sandboxId: id, path, reason, quarantined, err: failure },
      quarantined === undefined ? "corrupt checkpoint, not moved" : "corrupt checkpoint, moved to quarantine",
    );
  }
}
