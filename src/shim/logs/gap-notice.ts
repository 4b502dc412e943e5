/** The line that stands for lost ones, with the time of the line after it. */
export function gapNotice(time: string, count: number): string {
  return `${time} stderr F dockershim: log lines are missing here, the Docker Engine had dropped them before they were read (gap ${String(count)} of this log)\n`;
}

/** As `gapNotice`, for output that the engine does not keep. */
export function absenceNotice(time: string, count: number): string {
  return `${time} stderr F dockershim: output is missing here, it was written while dockershim did not run and the log driver keeps none (gap ${String(count)} of this log)\n`;
}
