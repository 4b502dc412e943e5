/** What `/proc/<pid>/stat` says of a process. */

export interface ProcessStat {
  readonly pid: number;
  readonly parent: number;
  readonly group: number;
  readonly session: number;
  /** As `S`, `D`, `T`, `Z`. */
  readonly state: string;
  readonly threads: number;
  /** Clock ticks since boot: with the pid it names one process for ever. */
  readonly startTime: string;
}

/**
 * `pid (command) state parent group session …`, with the number of threads as field 20 and the start time as
 * field 22. The command may hold blanks, parentheses and line feeds.
 */
export function parseStat(text: string): ProcessStat | undefined {
  const end = text.lastIndexOf(")");
  const fields = text.slice(end + 2).split(" ");
  const [state = "", parent, group, session] = fields;
  const [threads, , startTime] = fields.slice(17);
  if (end === -1 || startTime === undefined) return undefined;
  return {
    pid: Number.parseInt(text, 10),
    parent: Number(parent),
    group: Number(group),
    session: Number(session),
    state,
    threads: Number(threads),
    startTime: startTime.trim(),
  };
}

/** Whether a process has ended: a zombie whose other threads live on has not. */
export function hasEnded(stat: ProcessStat | undefined): boolean {
  return stat === undefined || stat.state === "X" || (stat.state === "Z" && stat.threads <= 1);
}
