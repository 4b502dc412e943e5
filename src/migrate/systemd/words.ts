/** Words of command lines and environment assignments in unit files: quotes, escapes and variables. */

export interface Word {
  /** After quotes and escapes, before variables. */
  readonly text: string;
  /** As it stands in the file. */
  readonly raw: string;
}

const escapes: Readonly<Record<string, string>> = {
  a: "\u0007",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
  v: "\v",
  s: " ",
};

/** Undefined when a quote does not end. */
export function splitWords(value: string): readonly Word[] | undefined {
  const words: Word[] = [];
  let index = 0;
  while (index < value.length) {
    if (/\s/.test(value[index] ?? "")) {
      index += 1;
      continue;
    }
    const start = index;
    let text = "";
    let quote = "";
    for (; index < value.length; index += 1) {
      const character = value[index] ?? "";
      if (quote === "" && /\s/.test(character)) break;
      if (character === quote) quote = "";
      else if (quote === "" && (character === '"' || character === "'")) quote = character;
      else if (character === "\\" && index + 1 < value.length) {
        index += 1;
        const next = value[index] ?? "";
        text += escapes[next] ?? next;
      } else text += character;
    }
    if (quote !== "") return undefined;
    words.push({ text, raw: value.slice(start, index) });
  }
  return words;
}

/** A variable with the place of its assignment. */
export interface Variable {
  readonly value: string;
  readonly file: string;
  readonly line: number;
}

/** A word of the command that systemd runs, and where it was written. */
export interface PlacedWord {
  readonly text: string;
  readonly raw: string;
  readonly file: string;
  readonly line: number;
}

/** `$NAME` as a word becomes the words of its value, `${NAME}` and `$NAME` within a word its value. */
export function expandWords(
  words: readonly Word[],
  place: { readonly file: string; readonly line: number },
  variables: ReadonlyMap<string, Variable>,
): readonly PlacedWord[] {
  return words.flatMap(({ text, raw }) => {
    const alone = /^\$([A-Za-z_]\w*)$/.exec(text)?.[1];
    if (alone !== undefined) {
      const variable = variables.get(alone);
      if (variable === undefined) return [];
      const { file, line } = variable;
      return (splitWords(variable.value) ?? []).map((word) => ({ ...word, file, line }));
    }
    const expanded = text.replaceAll(
      /\$\$|\$\{([A-Za-z_]\w*)\}|\$([A-Za-z_]\w*)/g,
      (whole, braced: string | undefined, plain: string | undefined) =>
        whole === "$$" ? "$" : (variables.get(braced ?? plain ?? "")?.value ?? ""),
    );
    return [{ text: expanded, raw, ...place }];
  });
}
