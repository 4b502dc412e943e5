/**
 * A JSON reader for files that must not be misread. Unlike `JSON.parse` it keeps numbers as they are written, keeps
 * every member of an object in order (so that a key that occurs twice can be seen), and limits the depth.
 */

export type JsonValue =
  | { readonly kind: "null" }
  | { readonly kind: "boolean"; readonly value: boolean }
  /** The digits as written: a checksum or port that a double cannot hold is not rounded. */
  | { readonly kind: "number"; readonly literal: string }
  | { readonly kind: "string"; readonly value: string }
  | { readonly kind: "array"; readonly items: readonly JsonValue[] }
  | { readonly kind: "object"; readonly members: readonly (readonly [key: string, value: JsonValue])[] };

/** Checkpoints need four levels; what is deeper was not written by a shim. */
const maximumDepth = 32;

const numberForm = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const blankForm = /[ \t\n\r]*/y;

/** Why a text is not JSON, with the offset in UTF-16 units. Thrown by `parseJson` only. */
export class JsonSyntaxError extends Error {
  override readonly name = "JsonSyntaxError";
}

/** Reads one JSON value and nothing behind it. Throws `JsonSyntaxError`. */
export function parseJson(text: string): JsonValue {
  const reader = new Reader(text);
  const value = reader.value(0);
  reader.end();
  return value;
}

class Reader {
  #at = 0;

  constructor(private readonly text: string) {}

  value(depth: number): JsonValue {
    if (depth > maximumDepth) this.#fail("nested too deeply");
    this.#skipBlanks();
    switch (this.text[this.#at]) {
      case "{":
        return this.#object(depth);
      case "[":
        return this.#array(depth);
      case '"':
        return { kind: "string", value: this.#string() };
      case "t":
        return this.#word("true", { kind: "boolean", value: true });
      case "f":
        return this.#word("false", { kind: "boolean", value: false });
      case "n":
        return this.#word("null", { kind: "null" });
      default:
        return this.#number();
    }
  }

  end(): void {
    this.#skipBlanks();
    if (this.#at < this.text.length) this.#fail("more text behind the value");
  }

  #object(depth: number): JsonValue {
    const members: (readonly [string, JsonValue])[] = [];
    this.#at += 1;
    if (this.#take("}")) return { kind: "object", members };
    do {
      this.#skipBlanks();
      if (this.text[this.#at] !== '"') this.#fail("a key is expected");
      const key = this.#string();
      if (!this.#take(":")) this.#fail('":" is expected');
      members.push([key, this.value(depth + 1)]);
    } while (this.#take(","));
    if (!this.#take("}")) this.#fail('"," or "}" is expected');
    return { kind: "object", members };
  }

  #array(depth: number): JsonValue {
    const items: JsonValue[] = [];
    this.#at += 1;
    if (this.#take("]")) return { kind: "array", items };
    do items.push(this.value(depth + 1));
    while (this.#take(","));
    if (!this.#take("]")) this.#fail('"," or "]" is expected');
    return { kind: "array", items };
  }

  #string(): string {
    const start = this.#at;
    let end = start + 1;
    for (; this.text[end] !== '"'; end += 1) {
      if (end >= this.text.length) this.#fail("the string does not end");
      if (this.text[end] === "\\") end += 1;
    }
    this.#at = end + 1;
    let value: unknown;
    try {
      value = JSON.parse(this.text.slice(start, this.#at)); // Escapes and forbidden control characters.
    } catch {
      value = undefined;
    }
    if (typeof value !== "string") {
      this.#at = start;
      return this.#fail("the string is malformed");
    }
    return value;
  }

  #number(): JsonValue {
    const literal = this.#match(numberForm);
    if (literal === "") this.#fail("a value is expected");
    return { kind: "number", literal };
  }

  #word(word: string, value: JsonValue): JsonValue {
    if (!this.text.startsWith(word, this.#at)) this.#fail("a value is expected");
    this.#at += word.length;
    return value;
  }

  #take(character: string): boolean {
    this.#skipBlanks();
    if (this.text[this.#at] !== character) return false;
    this.#at += 1;
    return true;
  }

  #skipBlanks(): void {
    this.#match(blankForm);
  }

  /** What the sticky pattern matches here, possibly nothing. */
  #match(form: RegExp): string {
    form.lastIndex = this.#at;
    const matched = form.exec(this.text)?.[0] ?? "";
    this.#at += matched.length;
    return matched;
  }

  #fail(reason: string): never {
    throw new JsonSyntaxError(`${reason} at offset ${String(this.#at)}`);
  }
}
