/** HTML as text. What is put into a template is escaped, wherever it comes from; only templates are HTML. */
import { shownText } from "../../lib/shown-text.js";

const unwrap = Symbol("HTML");

/** Made by `html` alone. */
export interface Html {
  readonly [unwrap]: string;
}

type Part = Html | string | number | undefined | readonly Part[];

/** Values may stand between tags, and in attributes that are quoted. */
export function html(strings: TemplateStringsArray, ...parts: readonly Part[]): Html {
  let text = strings[0] ?? "";
  for (const [index, part] of parts.entries()) text += textOf(part) + (strings[index + 1] ?? "");
  return { [unwrap]: text };
}

export function htmlText(page: Html): string {
  return page[unwrap];
}

function textOf(part: Part): string {
  if (part === undefined) return "";
  if (typeof part === "string" || typeof part === "number") return escaped(String(part));
  return unwrap in part ? part[unwrap] : part.map(textOf).join("");
}

const references: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

/** Characters that cannot be seen, or turn the direction of the text around them, are shown by number. */
function escaped(text: string): string {
  return shownText(text).replaceAll(/[&<>"']/g, (character) => references[character] ?? "");
}
