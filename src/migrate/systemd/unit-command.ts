/** The command of a service: `ExecStart=` with the variables of `Environment=` and `EnvironmentFile=`. */
import { join } from "node:path/posix";
import type { NodeFiles } from "../files/node-files.js";
import { listValues, type LoadedUnit } from "./load-unit.js";
import { logicalLines, type Problem, type UnitEntry } from "./unit-file.js";
import { expandWords, type PlacedWord, splitWords, type Variable } from "./words.js";

/** What ExecStart= may have before the path of the program. */
const prefixes = /^[@:+!-]*/;

export interface UnitCommand {
  /** The entry that systemd runs; undefined when the unit has none. */
  readonly entry: UnitEntry | undefined;
  /** The program and its arguments. */
  readonly words: readonly PlacedWord[];
  /** Paths of files whose variables the command has, in order. */
  readonly environmentFiles: readonly string[];
  readonly variables: ReadonlyMap<string, Variable>;
  readonly problems: readonly Problem[];
}

/** The last `ExecStart=`. Never throws. */
export async function unitCommand(files: NodeFiles, unit: LoadedUnit): Promise<UnitCommand> {
  const problems: Problem[] = [];
  const variables = new Map<string, Variable>();
  const host = await files.hostName();
  const split = (value: string): ReturnType<typeof splitWords> =>
    splitWords(value)?.map(({ text, raw }) => ({ text: withSpecifiers(text, unit.name, host), raw }));
  for (const entry of listValues(unit, "Service", "Environment")) {
    const words = split(entry.value);
    if (words === undefined) problems.push(unclosedQuote(entry));
    for (const { text } of words ?? []) setVariable(variables, text, entry);
  }
  const environmentFiles: string[] = [];
  // As in systemd, the files win over Environment=.
  for (const entry of listValues(unit, "Service", "EnvironmentFile")) {
    const pattern = entry.value.replace(/^-/, "");
    const isOptional = entry.value.startsWith("-");
    const missing = (path: string): Problem => ({
      place: path,
      text: `is missing, but ${entry.file}:${entry.line} needs it`,
    });
    const paths = await matchingPaths(files, pattern);
    if (paths.length === 0 && !isOptional) problems.push(missing(pattern));
    for (const path of paths) {
      const reading = await files.read(path);
      if (reading.kind === "read") {
        environmentFiles.push(reading.path);
        problems.push(...readEnvironmentFile(reading.path, reading.text, variables));
      } else if (reading.kind === "unreadable") {
        problems.push({ place: path, text: reading.reason });
      } else if (!isOptional) {
        problems.push(missing(path));
      }
    }
  }
  for (const { value } of listValues(unit, "Service", "UnsetEnvironment"))
    for (const { text } of splitWords(value) ?? []) {
      const [name = "", ...rest] = text.split("=");
      if (rest.length === 0 || variables.get(name)?.value === rest.join("=")) variables.delete(name);
    }
  const entry = listValues(unit, "Service", "ExecStart").at(-1);
  const words = entry === undefined ? [] : split(entry.value.replace(prefixes, ""));
  if (entry !== undefined && words === undefined) problems.push(unclosedQuote(entry));
  const place = { file: entry?.file ?? unit.path, line: entry?.line ?? 1 };
  // With a colon systemd replaces no variables.
  const isPlain = prefixes.exec(entry?.value ?? "")?.[0].includes(":") === true;
  return {
    entry,
    words: isPlain
      ? (words ?? []).map((word) => ({ ...word, ...place }))
      : expandWords(words ?? [], place, variables),
    environmentFiles,
    variables,
    problems,
  };
}

/** Those that are the same at each start of a service of the system; others stay. */
function withSpecifiers(text: string, unit: string, host: string): string {
  const values: Readonly<Record<string, string>> = { "%": "%", t: "/run", n: unit, H: host };
  return text.replaceAll(/%(.)/g, (all: string, letter: string) => values[letter] || all);
}

function unclosedQuote({ file, line }: UnitEntry): Problem {
  return { place: `${file}:${line}`, text: "has a quote without its end" };
}

function setVariable(
  variables: Map<string, Variable>,
  assignment: string,
  { file, line }: { readonly file: string; readonly line: number },
): boolean {
  const [, name, value = ""] = /^([A-Za-z_]\w*)=(.*)$/s.exec(assignment) ?? [];
  if (name !== undefined) variables.set(name, { value, file, line });
  return name !== undefined;
}

/** Lines of `NAME=value`, the value in quotes or not. Others, as `export NAME=value`, set nothing. */
function readEnvironmentFile(
  file: string,
  text: string,
  variables: Map<string, Variable>,
): readonly Problem[] {
  return quotedLines(text).flatMap(({ line, text: assignment }): readonly Problem[] => {
    const place = `${file}:${line}`;
    const [, name, raw = ""] = /^([A-Za-z_]\w*)=(.*)$/s.exec(assignment) ?? [];
    if (name === undefined) return [{ place, text: "is not an assignment" }];
    const quote = /^["']/.exec(raw)?.[0];
    if (quote !== undefined && (raw.length < 2 || !raw.endsWith(quote)))
      return [{ place, text: "has a quote without its end" }];
    const value = quote === undefined ? raw : raw.slice(1, -1);
    variables.set(name, { value, file, line });
    return [];
  });
}

/** A value in quotes may have several lines. */
function quotedLines(text: string): ReturnType<typeof logicalLines> {
  const lines: { line: number; text: string }[] = [];
  for (const line of logicalLines(text)) {
    const last = lines.at(-1);
    const isOpen = last !== undefined && /^\w+=(?:"(?:[^"\\]|\\.)*|'[^']*)$/s.test(last.text);
    if (isOpen) last.text += `\n${line.text}`;
    else lines.push({ ...line });
  }
  return lines;
}

/** Paths that exist, sorted, as of glob(7). A path without wildcards is answered as it is. */
async function matchingPaths(files: NodeFiles, pattern: string): Promise<readonly string[]> {
  if (!/[*?[]/.test(pattern)) return [pattern];
  let paths: readonly string[] = ["/"];
  for (const part of pattern.split("/").filter((one) => one !== "")) {
    const next = paths.map(async (path): Promise<readonly string[]> => {
      if (!/[*?[]/.test(part)) return [join(path, part)];
      const expression = expressionOf(part);
      const names = await files.names(path);
      return names.filter((name) => expression.test(name)).map((name) => join(path, name));
    });
    paths = (await Promise.all(next)).flat();
  }
  const kinds = await Promise.all(paths.map((path) => files.kindOf(path)));
  return paths.filter((_path, index) => kinds[index] !== "absent");
}

/** A leading dot is matched by a dot alone. */
function expressionOf(part: string): RegExp {
  const source = part.replaceAll(/\[[^\]]+\]|[^]/g, (token) => {
    if (token === "*") return ".*";
    if (token === "?") return ".";
    if (token.length === 1) return token.replace(/[.+^${}()|[\]\\/-]/, "\\$&");
    return token.replace(/^\[!/, "[^").replaceAll("\\", "\\\\");
  });
  try {
    return new RegExp(`^${part.startsWith(".") ? "" : "(?!\\.)"}${source}$`, "s");
  } catch {
    // A range such as [z-a] matches nothing.
    return /^(?!)/;
  }
}
