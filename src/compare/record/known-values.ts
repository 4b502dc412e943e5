/** Values that are secret, and every place of a text that has one of them, in one pass over the text. */

/** Shorter ones are parts of too many words. */
const shortest = 4;
/** From here on a value is found inside of words, too, and in encoded forms. */
const shortestInWords = 8;
/** No longer string can be a variable or an argument of a program on Linux. */
const longest = 128 * 1024;
/** Of which encoded forms are known. */
const longestEncoded = 256;
const maximumValues = 10_000;
const maximumCharacters = 8 * 1024 * 1024;

interface Form {
  readonly text: string;
  readonly value: string;
  readonly isWord: boolean;
}

export class KnownValues {
  readonly #values = new Set<string>();
  #characters = 0;
  /** By their first characters; the longest first. */
  readonly #forms = new Map<string, Form[]>();

  get size(): number {
    return this.#values.size;
  }

  add(value: string): void {
    if (value.length < shortest || value.length > longest) return;
    if (!this.#values.delete(value)) {
      this.#characters += value.length;
      for (const form of formsOf(value)) {
        const key = form.text.slice(0, shortest);
        const forms = this.#forms.get(key) ?? [];
        const shorter = forms.findIndex(({ text }) => text.length < form.text.length);
        forms.splice(shorter < 0 ? forms.length : shorter, 0, form);
        this.#forms.set(key, forms);
      }
    }
    // The last is the youngest.
    this.#values.add(value);
    for (const oldest of this.#values) {
      if (this.#values.size <= maximumValues && this.#characters <= maximumCharacters) break;
      this.#forget(oldest);
    }
  }

  /** The text with something else in the place of each value. */
  replace(text: string, replacement: (value: string) => string): string {
    if (this.#values.size === 0) return text;
    let result = "";
    let done = 0;
    for (let index = 0; index + shortest <= text.length; index += 1) {
      const form = this.#forms
        .get(text.slice(index, index + shortest))
        ?.find((one) => isAt(text, index, one));
      if (form === undefined) continue;
      result += text.slice(done, index) + replacement(form.value);
      done = index + form.text.length;
      index = done - 1;
    }
    return result + text.slice(done);
  }

  #forget(value: string): void {
    this.#values.delete(value);
    this.#characters -= value.length;
    for (const { text } of formsOf(value)) {
      const key = text.slice(0, shortest);
      const rest = (this.#forms.get(key) ?? []).filter((form) => form.value !== value);
      if (rest.length === 0) this.#forms.delete(key);
      else this.#forms.set(key, rest);
    }
  }
}

function isAt(text: string, index: number, { text: found, isWord }: Form): boolean {
  if (!text.startsWith(found, index)) return false;
  const isInside = (at: number): boolean => /[A-Za-z0-9]/.test(text[at] ?? "");
  return !isWord || !(isInside(index - 1) || isInside(index + found.length));
}

/** As it is, as JSON and Go quote it, as in a URL, and in Base64; without white space at its ends. */
function formsOf(value: string): readonly Form[] {
  const text = value.trim();
  if (text.length < shortest) return [];
  if (text.length < shortestInWords) return [{ text, value, isWord: true }];
  const quoted = JSON.stringify(text).slice(1, -1);
  const escape = (one: string): string => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`;
  const texts = new Set([text, quoted, quoted.replaceAll(/[<>&]/g, escape)]);
  if (text.length <= longestEncoded) {
    const bytes = Buffer.from(text);
    const percent = encodeURIComponent(bytes.toString());
    const hex = (one: string): string => `%${one.charCodeAt(0).toString(16).toUpperCase()}`;
    texts.add(percent).add(percent.replaceAll(/[!'()*]/g, hex).replaceAll("%20", "+"));
    for (const before of [0, 1, 2]) {
      const whole = Buffer.concat([Buffer.alloc(before), bytes]);
      // Only the characters that no byte beside the value has a part in.
      const part = whole.toString("base64").slice([0, 2, 3][before], Math.floor((whole.length * 8) / 6));
      texts.add(part).add(part.replaceAll("+", "-").replaceAll("/", "_"));
    }
  }
  return [...texts].map((one) => ({ text: one, value, isWord: false }));
}
