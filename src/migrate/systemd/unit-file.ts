/** The text of systemd's unit files, as systemd.syntax(7) describes it. No package on npm reads it. */

export interface UnitEntry {
  readonly section: string;
  readonly key: string;
  /** Continued lines joined by a blank; quotes, escapes and specifiers as they are. */
  readonly value: string;
  /** Path of the file on the node. */
  readonly file: string;
  /** The first line of the entry, from 1. */
  readonly line: number;
}

/** A place that was not understood. */
export interface Problem {
  /** File on the node or socket, with a line where there is one. */
  readonly place: string;
  readonly text: string;
}

export interface UnitText {
  readonly entries: readonly UnitEntry[];
  readonly problems: readonly Problem[];
}

const sectionLine = /^\[([^\]]+)\]\s*$/;
const entryLine = /^([A-Za-z][A-Za-z0-9_-]*)\s*=\s*(.*)$/s;

/** Never throws: a line that systemd would ignore is a problem. */
export function parseUnitText(file: string, text: string): UnitText {
  const entries: UnitEntry[] = [];
  const problems: Problem[] = [];
  let section = "";
  for (const { line, text: whole } of logicalLines(text)) {
    const place = `${file}:${line}`;
    const ofSection = sectionLine.exec(whole)?.[1];
    const [, key, value = ""] = entryLine.exec(whole) ?? [];
    if (ofSection !== undefined) section = ofSection;
    else if (key === undefined) problems.push({ place, text: "is neither a section nor an assignment" });
    else if (section === "") problems.push({ place, text: "is an assignment outside of a section" });
    else entries.push({ section, key, value: value.trimEnd(), file, line });
  }
  return { entries, problems };
}

interface LogicalLine {
  readonly line: number;
  readonly text: string;
}

/** Without comments and empty lines. A comment inside a continued line ends nothing. */
export function logicalLines(text: string): readonly LogicalLine[] {
  const lines: LogicalLine[] = [];
  let open: { line: number; text: string } | undefined;
  for (const [index, raw] of text.split(/\r?\n/).entries()) {
    const trimmed = raw.trim();
    if (/^[#;]/.test(trimmed)) continue;
    if (open === undefined && trimmed === "") continue;
    const continues = raw.endsWith("\\");
    const part = (continues ? raw.slice(0, -1) : raw).trim();
    open = open === undefined ? { line: index + 1, text: part } : { ...open, text: `${open.text} ${part}` };
    if (continues) continue;
    lines.push({ ...open, text: open.text.trim() });
    open = undefined;
  }
  if (open !== undefined) lines.push(open);
  return lines;
}
