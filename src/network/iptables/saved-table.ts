/** Reading what `iptables-save` prints. */

export interface SavedRule {
  readonly chain: string;
  /** All after the name of the chain, quotes and escapes undone. */
  readonly words: readonly string[];
  /** All after the name of the chain, as printed, for handing it back. */
  readonly text: string;
}

export interface SavedTable {
  readonly chains: readonly string[];
  readonly rules: readonly SavedRule[];
}

/** One table of the text; empty when the text has it not. */
export function parseSavedTable(save: string, table = "nat"): SavedTable {
  const chains: string[] = [];
  const rules: SavedRule[] = [];
  let current: string | undefined;
  for (const line of save.split("\n")) {
    if (line.startsWith("*")) current = line.slice(1).trim();
    else if (line.startsWith("COMMIT")) current = undefined;
    if (current !== table) continue;
    const chain = /^:(\S+)/.exec(line)?.[1];
    if (chain !== undefined) chains.push(chain);
    // With -c a rule begins with its counters.
    const rule = /^(?:\[\d+:\d+\] )?-A (\S+) ?(.*)$/.exec(line);
    if (rule?.[1] !== undefined) {
      const text = rule[2] ?? "";
      rules.push({ chain: rule[1], words: splitWords(text), text });
    }
  }
  return { chains, rules };
}

/** The word after `flag`; undefined without the flag, or when a `!` before it turns its meaning around. */
export function wordAfter(rule: SavedRule, flag: string): string | undefined {
  const index = rule.words.indexOf(flag);
  return index < 0 || rule.words[index - 1] === "!" ? undefined : rule.words[index + 1];
}

/** Where the rule jumps to. */
export function targetOf(rule: SavedRule): string | undefined {
  return wordAfter(rule, "-j") ?? wordAfter(rule, "-g");
}

export function commentOf(rule: SavedRule): string | undefined {
  return wordAfter(rule, "--comment");
}

/** Words between blanks; in double quotes a backslash takes the next character as it is. */
function splitWords(text: string): readonly string[] {
  const words: string[] = [];
  for (const match of text.matchAll(/"((?:[^"\\]|\\.)*)"|(\S+)/g)) {
    words.push(match[1] === undefined ? (match[2] ?? "") : match[1].replace(/\\(.)/g, "$1"));
  }
  return words;
}
