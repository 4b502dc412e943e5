/** Completions of shells, made from commander's declarations. */
import type { Command, Option } from "commander";

export const shells = ["bash", "zsh", "fish"] as const;
export type Shell = (typeof shells)[number];

interface Word {
  readonly name: string;
  readonly help: string;
}

interface Flag {
  /** `--follow`, `-f` */
  readonly names: readonly string[];
  readonly help: string;
  /** What comes as the next word: nothing, a file, one of a list, or any other text. */
  readonly value: "none" | "file" | "any" | readonly string[];
}

/** A command, and what can follow it. */
interface Place {
  /** `pod ps`; empty for the program. */
  readonly path: string;
  readonly words: readonly Word[];
  readonly flags: readonly Flag[];
  readonly takesFiles: boolean;
}

/** The script for `shell`. It needs no other file, and never starts the program. */
export function completionScript(program: Command, shell: Shell): string {
  const name = program.name();
  const places = placesOf(program, "");
  if (shell === "bash") return bashScript(name, places);
  return shell === "zsh" ? zshScript(name, places) : fishScript(name, places);
}

function placesOf(command: Command, path: string): readonly Place[] {
  // `doctor network|reach|ulimits [flags]`: words that are no commands of commander.
  const [first = ""] = command.usage().split(" ");
  const choices = /^[\w-]+(\|[\w-]+)+$/.test(first) ? first.split("|") : [];
  // createHelp() knows which commands are hidden.
  const children = command.createHelp().visibleCommands(command);
  const words = new Map(choices.map((name) => [name, { name, help: "" }]));
  for (const child of children) words.set(child.name(), { name: child.name(), help: child.summary() });
  const flags = command.options.filter(({ hidden }) => !hidden).map(flagOf);
  const place: Place = {
    path,
    words: [...words.values()],
    flags: [...flags, { names: ["--help", "-h"], help: "print the help", value: "none" }],
    takesFiles: /\b(file|recording|source)\b/i.test(command.usage()),
  };
  const below = children.flatMap((child) => placesOf(child, `${path} ${child.name()}`.trim()));
  return [place, ...below];
}

/** Placeholders of values that are paths. */
const filePlaceholder = /[<[](file|path|directory|program|socket|endpoint)\b/;

function flagOf({ long, short, flags, description, argChoices, required }: Option): Flag {
  const names = [long, short].filter((each) => each !== undefined);
  // An optional value is written with "=", never as the next word.
  const value = !required ? "none" : (argChoices ?? (filePlaceholder.test(flags) ? "file" : "any"));
  return { names, help: description, value };
}

/** In single quotes, for all three shells: of backslashes, fish alone thinks otherwise, so they go. */
function quoted(text: string): string {
  return `'${text.replaceAll("\\", "").replaceAll("'", "’").replaceAll(/\s+/g, " ")}'`;
}

/** A function that prints, for a place (and a flag), the lines of `entries`. */
function caseFunction(
  name: string,
  subject: string,
  entries: readonly (readonly [pattern: string, lines: readonly string[]])[],
): string {
  const cases = entries
    .filter(([, lines]) => lines.length > 0)
    .map(([pattern, lines]) => `    ${pattern}) printf '%s\\n' ${lines.map(quoted).join(" ")} ;;\n`);
  return `${name}() {\n  case ${subject} in\n${cases.join("")}    *) return 1 ;;\n  esac\n}\n`;
}

/** The functions that bash and zsh share. Words and flags are lines as `line` makes them. */
function tables(
  name: string,
  places: readonly Place[],
  line: (name: string, help: string) => string,
): string {
  const values = places.flatMap(({ path, flags }) =>
    flags.flatMap(({ names, value }) =>
      value === "none"
        ? []
        : [
            [
              names.map((each) => quoted(`${path}:${each}`)).join("|"),
              typeof value === "string" ? [`@${value}`] : value,
            ] as const,
          ],
    ),
  );
  const of = (lines: (place: Place) => readonly string[]) =>
    places.map((place) => [quoted(place.path), lines(place)] as const);
  const flagLines = ({ flags }: Place): readonly string[] =>
    flags.flatMap(({ names, help }) => names.map((each) => line(each, help)));
  const yes = (isTrue: boolean): readonly string[] => (isTrue ? ["yes"] : []);
  return [
    caseFunction(
      `_${name}_words`,
      '"$1"',
      of(({ words }) => words.map((word) => line(word.name, word.help))),
    ),
    caseFunction(`_${name}_flags`, '"$1"', of(flagLines)),
    caseFunction(`_${name}_values`, '"$1:$2"', values),
    caseFunction(
      `_${name}_is_place`,
      '"$1"',
      of(({ path }) => yes(path !== "")),
    ),
    caseFunction(
      `_${name}_takes_files`,
      '"$1"',
      of(({ takesFiles }) => yes(takesFiles)),
    ),
  ].join("\n");
}

/** The words before the cursor, in bash and zsh: finds the place, and the flag that waits for its value. */
function scan(name: string, words: string, first: number, current: string, onRest: string): string {
  return `  for ((index = ${first}; index < ${current}; index++)); do
    word="\${${words}[index]}"
    if [[ $word == "=" ]]; then
      continue
    elif [[ -n $flag ]]; then
      flag=""
    elif [[ $word == "--" ]]; then
      ${onRest}
      return
    elif [[ $word == -* ]]; then
      if values="$(_${name}_values "$place" "$word")"; then flag="$word"; fi
    elif [[ -z $rest ]] && _${name}_is_place "\${place:+$place }$word" >/dev/null; then
      place="\${place:+$place }$word"
    else
      rest="$word"
    fi
  done
`;
}

function bashScript(name: string, places: readonly Place[]): string {
  const files = `compopt -o filenames 2>/dev/null
    mapfile -t -O "\${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$current")`;
  return `# Completion of ${name} for bash.
${tables(name, places, (word) => word)}
_${name}() {
  local current="\${COMP_WORDS[COMP_CWORD]}" place="" rest="" flag="" values="" word index
  COMPREPLY=()
${scan(name, "COMP_WORDS", 1, "COMP_CWORD", "compopt -o default 2>/dev/null")}
  if [[ $current == "=" ]]; then current=""; fi
  if [[ -n $flag && $values == "@file" ]]; then
    ${files}
  elif [[ -n $flag && $values != "@any" ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$values" -- "$current")
  elif [[ -n $flag ]]; then
    return
  elif [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(_${name}_flags "$place")" -- "$current")
  else
    if [[ -z $rest ]]; then mapfile -t COMPREPLY < <(compgen -W "$(_${name}_words "$place")" -- "$current"); fi
    if _${name}_takes_files "$place" >/dev/null; then
    ${files}
    fi
  fi
}
complete -F _${name} ${name}
`;
}

function zshScript(name: string, places: readonly Place[]): string {
  const line = (word: string, help: string): string => (help === "" ? word : `${word}:${help}`);
  return `#compdef ${name}
# Completion of ${name} for zsh.
${tables(name, places, line)}
_${name}() {
  local current="\${words[CURRENT]}" place="" rest="" flag="" values="" word index
  local -a found
${scan(name, "words", 2, "CURRENT", "_default")}
  if [[ -z $flag && $current == --*=* ]] && values="$(_${name}_values "$place" "\${current%%=*}")"; then
    flag="$current"
    compset -P '*='
  fi
  if [[ -n $flag && $values == "@file" ]]; then
    _files
  elif [[ -n $flag && $values != "@any" ]]; then
    compadd -- "\${(@f)values}"
  elif [[ -n $flag ]]; then
    return 1
  elif [[ $current == -* ]]; then
    found=("\${(@f)$(_${name}_flags "$place")}")
    _describe -o flag found
  else
    if [[ -z $rest ]]; then
      found=("\${(@f)$(_${name}_words "$place")}")
      [[ -n $found ]] && _describe command found
    fi
    if _${name}_takes_files "$place" >/dev/null; then _files; fi
  fi
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _${name} "$@"; else compdef _${name} ${name}; fi
`;
}

function fishScript(name: string, places: readonly Place[]): string {
  const known = places.filter(({ path }) => path !== "").map(({ path }) => quoted(path));
  const lines = places.flatMap(({ path, words, flags, takesFiles }) => {
    const at = `complete -c ${name} -n ${quoted(`__${name}_at "${path}"`)}`;
    return [
      ...(takesFiles ? [`${at} -F`] : []),
      ...words.map((word) => `${at} -a ${quoted(word.name)} -d ${quoted(word.help)}`),
      ...flags.map(({ names, help, value }) => {
        const spelled = names.map((each) =>
          each.startsWith("--") ? `-l ${each.slice(2)}` : `-s ${each.slice(1)}`,
        );
        const wants = { none: "", file: " -r -F", any: " -x" };
        const takes = typeof value === "string" ? wants[value] : ` -x -a ${quoted(value.join(" "))}`;
        return `${at} ${spelled.join(" ")}${takes} -d ${quoted(help)}`;
      }),
    ];
  });
  return `# Completion of ${name} for fish.
function __${name}_at
    set -l place ''
    for word in (commandline -opc)[2..-1]
        set -l next (string trim "$place $word")
        if contains -- "$next" ${known.join(" ")}
            set place $next
        end
    end
    test "$place" = "$argv[1]"
end
complete -c ${name} -f
${lines.join("\n")}
`;
}
