/**
 * What `kubectl logs` shows of a log in the CRI's format, by the rules of the kubelet's reader: the content
 * of a line with the tag F ends with its newline, that of a line with the tag P does not.
 */
export function shownByKubelet(log: Buffer | string): string {
  let shown = "";
  for (const line of log.toString("latin1").match(/[^\n]*\n/g) ?? []) {
    const [, head = "", tag] = /^(\S+ (?:stdout|stderr) (\S+) )/.exec(line) ?? [];
    if (tag === undefined) throw new Error(`no line of the CRI's format: ${line.slice(0, 80)}`);
    const content = line.slice(head.length);
    shown += tag.split(":")[0] === "P" ? content.slice(0, -1) : content;
  }
  return shown;
}
