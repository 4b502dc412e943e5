/** Edits of flags in unit files and environment files that keep everything else, byte for byte. Pure. */

/** The physical lines of the assignment that begins at `line` (from 1), with continued ones and comments. */
function rangeOf(lines: readonly string[], line: number): { readonly start: number; readonly end: number } {
  const start = line - 1;
  let end = start;
  const goesOn = (index: number): boolean =>
    lines[index]?.endsWith("\\") === true || (index > start && /^\s*[#;]/.test(lines[index] ?? ""));
  while (goesOn(end) && end + 1 < lines.length) end += 1;
  return { start, end };
}

/** Applies `edit` to the assignment at `line`; undefined when `edit` does not understand it. */
export function editAssignment(
  text: string,
  line: number,
  edit: (assignment: string) => string | undefined,
): string | undefined {
  const lines = text.split("\n");
  const { start, end } = rangeOf(lines, line);
  if (lines[start] === undefined) return undefined;
  const edited = edit(lines.slice(start, end + 1).join("\n"));
  if (edited === undefined) return undefined;
  return [...lines.slice(0, start), edited, ...lines.slice(end + 1)].join("\n");
}

/** Replaces or removes the words `raw`. Undefined unless they stand there exactly once. */
export function replaceWords(
  assignment: string,
  raw: readonly string[],
  replacement: string | undefined,
): string | undefined {
  const words = raw.map(escapeExpression).join("\\s+");
  const expression = new RegExp(`(?<=^|[\\s"'=])${words}(?=$|[\\s"'])`, "g");
  const found = [...assignment.matchAll(expression)];
  const [match] = found;
  if (match === undefined || found.length > 1) return undefined;
  const before = assignment.slice(0, match.index);
  const after = assignment.slice(match.index + match[0].length);
  if (replacement !== undefined) return before + replacement + after;
  // A blank behind, or before at the end of a quote or line, goes with the words.
  if (/^[ \t]+[^\s\\]/.test(after)) return before + after.replace(/^[ \t]+/, "");
  return before.replace(/[ \t]+$/, "") + after;
}

/** Adds words behind the last one, inside of the quotes when the value is quoted as a whole. */
export function appendWords(assignment: string, words: string): string | undefined {
  const trimmed = assignment.trimEnd();
  const [, name = "", quote, value = ""] = /^([^=\n]*=)(["']?)(.*)$/s.exec(trimmed) ?? [];
  if (quote === undefined) return undefined;
  if (quote === "") return value === "" ? name + words : `${trimmed} ${words}`;
  if (!value.endsWith(quote)) return undefined;
  const inner = value.slice(0, -1);
  // A quote inside: the value is several quoted words.
  if (inner.includes(quote)) return undefined;
  return `${name}${quote}${inner.trimEnd()}${inner.trim() === "" ? "" : " "}${words}${quote}`;
}

function escapeExpression(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\/]/g, "\\$&");
}
