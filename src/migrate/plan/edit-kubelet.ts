/** Brings flags of a service into the files that have them, or into a drop-in of this program's own. */
import type { FlagFact, ServiceFacts } from "../facts/facts.js";
import { belongsToPackage, type Dependency } from "../kubelet/dependencies.js";
import { kubeadmFlagsFile } from "../kubelet/read-kubelet.js";
import type { WorkingFiles } from "./working-files.js";

const dropInOf = (unit: string): string => `/etc/systemd/system/${unit}.d/90-dockershim-migrate.conf`;

export interface NotUnderstood {
  readonly place: string;
  readonly text: string;
}

/** Edits `files`; what was not understood is answered, and stays as it is. */
export async function editServiceFlags(
  files: WorkingFiles,
  service: ServiceFacts,
  change: ReadonlyMap<string, string | undefined>,
): Promise<readonly NotUnderstood[]> {
  const problems: NotUnderstood[] = [];
  const added: string[] = [];
  for (const [name, value] of change) {
    const all = service.flags.filter((flag) => flag.name === name);
    const found = all.filter(({ raw }) => raw.length > 0);
    // A flag wins over a setting of a file, and no flag means what is not set.
    for (const { file, line } of value === undefined ? all.filter(({ raw }) => raw.length === 0) : [])
      problems.push({ place: `${file}:${line}`, text: `sets ${name}, which the runtime has not: remove it` });
    const last = found.at(-1);
    if (last === undefined) {
      if (value !== undefined) added.push(`--${name}=${value}`);
      continue;
    }
    const edited = value === undefined ? found : [last];
    for (const flag of edited) {
      if (flag.value === value) continue;
      const problem = await editFlag(
        files,
        service,
        flag,
        value === undefined ? undefined : `--${name}=${value}`,
      );
      if (problem !== undefined) problems.push(problem);
    }
  }
  if (added.length > 0) {
    const problem = await addFlags(files, service, added.join(" "));
    if (problem !== undefined) problems.push(problem);
  }
  return problems;
}

async function editFlag(
  files: WorkingFiles,
  service: ServiceFacts,
  flag: FlagFact,
  replacement: string | undefined,
): Promise<NotUnderstood | undefined> {
  const place = `${flag.file}:${flag.line}`;
  const edit = (assignment: string): string | undefined => replaceWords(assignment, flag.raw, replacement);
  const done = await editAt(files, service, flag, edit);
  return done ? undefined : { place, text: `"${flag.raw.join(" ")}" does not stand there as one flag` };
}

/** Each names `replacement` in place of its unit, or no unit. */
export async function editDependencies(
  files: WorkingFiles,
  dependencies: readonly Dependency[],
  replacement: string | undefined,
): Promise<readonly NotUnderstood[]> {
  const problems: NotUnderstood[] = [];
  for (const { service, entry, name } of dependencies) {
    const place = `${entry.file}:${entry.line}`;
    const what = `${entry.key}=${name} starts ${name} again`;
    const edit = (assignment: string): string | undefined => replaceWords(assignment, [name], replacement);
    if (belongsToPackage(entry.file))
      problems.push({
        place,
        text: `${what}, and no drop-in can take it back: copy the unit to /etc/systemd/system`,
      });
    else if (!(await editAt(files, service, entry, edit))) problems.push({ place, text: what });
  }
  return problems;
}

/** As those, where they go with them; a way to no unit leaves them. */
export async function editOrder(
  files: WorkingFiles,
  dependencies: readonly Dependency[],
  replacement: string | undefined,
): Promise<readonly NotUnderstood[]> {
  const problems: NotUnderstood[] = [];
  for (const { service, entry, name } of replacement === undefined ? [] : dependencies) {
    const edit = (assignment: string): string | undefined => replaceWords(assignment, [name], replacement);
    if (!(await editAt(files, service, entry, edit)))
      problems.push({ place: `${entry.file}:${entry.line}`, text: `${entry.key}=${name} names ${name}` });
  }
  return problems;
}

/** kubeadm's own file, else the command itself. */
async function addFlags(
  files: WorkingFiles,
  service: ServiceFacts,
  words: string,
): Promise<NotUnderstood | undefined> {
  const { command } = service;
  const append = (assignment: string): string | undefined => appendWords(assignment, words);
  const kubeadm = [...command.variables].find(
    ([name, { file }]) => file === kubeadmFlagsFile && (command.entry?.value.includes(name) ?? false),
  )?.[1];
  const place = kubeadm ?? command.entry;
  if (place === undefined) return { place: service.unit.path, text: "has no ExecStart" };
  const done = await editAt(files, service, place, append);
  return done ? undefined : { place: `${place.file}:${place.line}`, text: "cannot take another flag" };
}

async function editAt(
  files: WorkingFiles,
  service: ServiceFacts,
  place: { readonly file: string; readonly line: number },
  edit: (assignment: string) => string | undefined,
): Promise<boolean> {
  if (belongsToPackage(place.file)) return editInDropIn(files, service, place, edit);
  const text = await files.text(place.file);
  const edited = text === undefined ? undefined : editAssignment(text, place.line, edit);
  if (edited !== undefined) files.set(place.file, edited);
  return edited !== undefined;
}

/** The assignment is repeated in the drop-in, edited; a second edit finds it there. */
async function editInDropIn(
  files: WorkingFiles,
  { unit }: ServiceFacts,
  place: { readonly file: string; readonly line: number },
  edit: (assignment: string) => string | undefined,
): Promise<boolean> {
  const entry = unit.entries.find(({ file, line }) => file === place.file && line === place.line);
  if (entry === undefined || (entry.key !== "ExecStart" && entry.key !== "Environment")) return false;
  const path = await files.resolve(dropInOf(unit.name));
  const lines = ((await files.text(path)) ?? "# Made by dockershim migrate plan.\n[Service]\n").split("\n");
  const origin = `# from ${place.file}:${place.line}`;
  const known = lines.indexOf(origin);
  const at = known < 0 ? lines.length - 1 : known + (entry.key === "ExecStart" ? 2 : 1);
  const present = known < 0 ? `${entry.key}=${entry.value}` : (lines[at] ?? "");
  const edited = edit(present);
  if (edited === undefined) return false;
  if (known < 0) {
    const reset = entry.key === "ExecStart" ? ["ExecStart="] : [];
    lines.splice(at, 0, origin, ...reset, edited);
  } else lines.splice(at, 1, edited);
  files.set(path, lines.join("\n"));
  return true;
}

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
function editAssignment(
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
function replaceWords(
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
function appendWords(assignment: string, words: string): string | undefined {
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
