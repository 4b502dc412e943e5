/** Objects as JSON and YAML for `--output`. What a terminal acts on is written by number. */

/** JSON and YAML know escapes for control characters below 0x20 alone. */
const hidden = /[\u007F-\u009F\p{Cf}\u2028\u2029]/u;

export function jsonText(value: unknown): string {
  const units = (character: string): string =>
    Array.from({ length: character.length }, (_, at) => `\\u${hex(character.charCodeAt(at), 4)}`).join("");
  return `${replaceHidden(JSON.stringify(value, null, 2), units)}\n`;
}

/** Strings that YAML 1.1, which Kubernetes reads, takes for numbers, times or truth values are quoted: `no`. */
export async function yamlText(value: unknown): Promise<string> {
  const { Document, visit } = await import("../../lib/yaml.js");
  const document = new Document(value, { compat: "yaml-1.1", aliasDuplicateObjects: false });
  visit(document, {
    Scalar: (_key, node) => {
      if (typeof node.value === "string" && hidden.test(node.value)) node.type = "QUOTE_DOUBLE";
    },
  });
  return replaceHidden(document.toString(), (character) => `\\U${hex(character.codePointAt(0) ?? 0, 8)}`);
}

function replaceHidden(text: string, escape: (character: string) => string): string {
  return text.replaceAll(new RegExp(hidden, "gu"), escape);
}

function hex(number: number, digits: number): string {
  return number.toString(16).padStart(digits, "0");
}
