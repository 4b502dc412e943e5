/** What `migrate check` says of a node. The shape is part of `--output json`. */

/**
 * From the harmless to the worst. `note`: to be known, nothing changes for pods. `change`: a pod, or a program
 * beside the pods, sees a difference. `restart`: containers are made again. `blocked`: the change does not
 * work before this is solved. `lost`: something that cannot be had back.
 */
export const levels = ["ok", "note", "change", "restart", "blocked", "lost"] as const;
export type Level = (typeof levels)[number];

export interface Finding {
  /** Stable, for scripts. */
  readonly id: string;
  readonly level: Level;
  /** `node`, `pod NAMESPACE/NAME`, `container …`, `image …`, or a file. */
  readonly subject: string;
  readonly text: string;
  readonly reason: string;
  /** What the operator does about it; empty when there is nothing to do. */
  readonly next: string;
  /** Where it was read: a file with a line, an engine request. */
  readonly source: string;
}

export function worstLevel(all: readonly Level[]): Level {
  return levels[Math.max(0, ...all.map((level) => levels.indexOf(level)))] ?? "ok";
}

/** Whether a script that asks by exit code must hear of it. */
export function needsAttention(level: Level): boolean {
  return level !== "ok" && level !== "note";
}
