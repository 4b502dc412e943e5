/** The log files of containers, as the RPCs and the read model use them. Implemented by src/shim/logs. */
import type { Snapshot } from "../../domain/snapshot.js";

/** The path of a container's log. */
export interface LogTarget {
  /** Absolute; no file outside of it is written, also not through links. */
  readonly directory: string;
  /** Absolute, below `directory`. */
  readonly path: string;
}

/** `shim`: this program writes the log. `engine`: the log is a link to the engine's file. */
export type LogOwner = "shim" | "engine";

export interface ContainerLogs {
  /** A container was created. Decides who owns its log, for its life: this program (true) or the engine. */
  created(containerId: string, target: LogTarget): Promise<boolean>;

  /** As `created` decided. Undefined without a record: it was lost, of another program, or there is no log path. */
  ownerOf(containerId: string): LogOwner | undefined;

  /**
   * The record of a log that this program owned was lost: continues behind the last line of its file, when
   * that is in the CRI's format (true). Throws when the file cannot be read.
   */
  adopt(container: Snapshot, target: LogTarget): Promise<boolean>;

  /** Whether this program writes the log of the container. */
  owns(containerId: string): boolean;

  /**
   * To be called before the engine starts a container: makes the log file, and attaches when the output is
   * available in no other way. Throws when the log cannot be written. Does nothing for logs of another owner.
   */
  beforeStart(container: Snapshot, signal: AbortSignal): Promise<void>;

  /**
   * The present state of a container, before the read model shows it. Starts to write the log of a running
   * container. For an ended one it returns when the last byte is in the file, after 5 s at most. Never
   * throws.
   */
  observe(container: Snapshot): Promise<void>;

  /**
   * Continues in a new file at the log path, after the present one was renamed. No line is lost or written
   * twice. Throws `precondition` when the container does not run or its log has another owner; then no file
   * is made.
   */
  reopen(containerId: string): Promise<void>;

  /**
   * The same for a container of dockershim or cri-dockerd, which has no record: its log is a link to the
   * engine's file, at the log path or under the name that a rotation gave it. From now on this program writes
   * the log; the entries before become the rotated file. Throws `precondition` when such links are kept, or
   * there is none.
   */
  convert(container: Snapshot, target: LogTarget): Promise<void>;

  /** The container was removed. Afterwards nothing is written for it, and no file made. Never throws. */
  remove(containerId: string): Promise<void>;

  /** Ids of all containers with a record. */
  ids(): readonly string[];
}
