/**
 * The log files of containers as the RPCs and the read model see them. Implemented by src/shim/logs, which writes the
 * CRI's format from what the engine has.
 */
import type { Snapshot } from "../domain/snapshot.js";

/** Where a container's log belongs. */
export interface LogTarget {
  /** Absolute; nothing outside of it is written, links included. */
  readonly directory: string;
  /** Absolute, below `directory`. */
  readonly path: string;
}

/** `shim`: this program writes it. `engine`: it is a link to the engine's file. */
export type LogKeeper = "shim" | "engine";

export interface ContainerLogs {
  /**
   * A container was created. Decides, for good, who keeps its log: this program (true), or the engine, with a link to
   * its file (false).
   */
  created(container: Snapshot, target: LogTarget): Promise<boolean>;

  /**
   * What `created` has decided, or undefined when nothing is known of it: its record was lost, or another program, or a
   * container without a log path, is behind it.
   */
  keeperOf(containerId: string): LogKeeper | undefined;

  /**
   * The record of a log of ours was lost: goes on behind the last line of its file, when that is a log in the CRI's
   * format (true). Throws when the file cannot be read.
   */
  adopt(container: Snapshot, target: LogTarget): Promise<boolean>;

  /** Whether this program writes the log of the container. */
  owns(containerId: string): boolean;

  /**
   * To be called before the engine starts a container: makes the log file, and attaches where output can be had in no
   * other way. Throws when there can be no log. Nothing to do for containers that are not ours.
   */
  beforeStart(container: Snapshot, signal: AbortSignal): Promise<void>;

  /**
   * What the engine says of a container now, before anybody else learns of it. Begins to write the log of one that runs.
   * For one that has ended it returns when the last byte is in the file, after 5 s at most. Never throws.
   */
  observe(container: Snapshot): Promise<void>;

  /**
   * Goes on in a new file at the log path, after the present one was renamed. Nothing is lost and nothing written twice.
   * `precondition` when the container does not run or its log is not ours; then no file is made.
   */
  reopen(containerId: string): Promise<void>;

  /**
   * The same for a container that dockershim or cri-dockerd made, of which nothing is known: its log is a
   * link to the engine's file, at the log path or under the name that a rotation gave it. From now on it is
   * ours, and begins here; what the link led to becomes the file before it. `precondition` when such links
   * are to be kept, or there is none.
   */
  convert(container: Snapshot, target: LogTarget): Promise<void>;

  /** The container is gone. When this returns, nothing more is written for it, and no file made. Never throws. */
  remove(containerId: string): Promise<void>;

  /** Ids of all containers that something is remembered of. */
  ids(): readonly string[];
}
