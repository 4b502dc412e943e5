/** Flags of a command line, as Go's pflag reads them. */
import type { FlagFact } from "../facts/facts.js";
import type { PlacedWord } from "../systemd/words.js";

/** The first word is the program. A word without dashes behind a flag is its value. */
export function flagsOf(words: readonly PlacedWord[]): readonly FlagFact[] {
  const flags: FlagFact[] = [];
  for (let index = 1; index < words.length; index += 1) {
    const word = words[index];
    const [, name, value] = /^--?([A-Za-z][\w.-]*)(?:=(.*))?$/s.exec(word?.text ?? "") ?? [];
    if (word === undefined || name === undefined) continue;
    const { file, line } = word;
    const next = words[index + 1];
    const takesNext = value === undefined && next !== undefined && !next.text.startsWith("-");
    const raw = takesNext ? [word.raw, next.raw] : [word.raw];
    const given = value ?? (takesNext ? next.text : "true");
    flags.push({ name: name.replaceAll("_", "-"), value: given, raw, file, line });
    if (takesNext) index += 1;
  }
  return flags;
}

/** The last of several flags with one name counts. */
export function lastFlag(flags: readonly FlagFact[], name: string): FlagFact | undefined {
  return flags.findLast((flag) => flag.name === name);
}
