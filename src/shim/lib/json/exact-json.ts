/**
 * JSON that goes through this program unharmed. `JSON.parse` rounds integers beyond 2^53 and turns `1.50` into `1.5`;
 * what a plugin's author wrote must reach the plugin as it was written. Errors name line and column on every version
 * of Node.js, for they are shown to whoever edits the file.
 */

/** A number whose text `Number` would not give back, as `12345678901234567` or `1.50`. */
export class ExactNumber {
  constructor(readonly text: string) {}
}

export type Json = null | boolean | number | string | ExactNumber | readonly Json[] | JsonObject;

export interface JsonObject {
  readonly [key: string]: Json;
}

/** What is wrong with a text, and where (both counted from 1, columns in UTF-16 units). */
export class JsonSyntaxError extends Error {
  override readonly name = "JsonSyntaxError";

  constructor(
    readonly reason: string,
    readonly line: number,
    readonly column: number,
  ) {
    super(`line ${String(line)}, column ${String(column)}: ${reason}`);
  }
}

/** Deeper texts are attacks or accidents: the parser recurses. */
const deepest = 200;
const numberForm = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?/y;
// eslint-disable-next-line no-control-regex -- JSON forbids exactly these inside strings.
const stringForm = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const blanks = /[ \t\n\r]*/y;

/** The value of a JSON text. A key that occurs twice has its last value, as in Go. Throws `JsonSyntaxError`. */
export function parseJson(text: string): Json {
  const parser = new Parser(text);
  return parser.document();
}

/** `value` as one line of JSON; exact numbers in their own text. */
export function formatJson(value: Json): string {
  if (value instanceof ExactNumber) return value.text;
  if (isList(value)) return `[${value.map(formatJson).join(",")}]`;
  if (isObject(value)) {
    const members = Object.entries(value).map(
      ([key, member]) => `${JSON.stringify(key)}:${formatJson(member)}`,
    );
    return `{${members.join(",")}}`;
  }
  return JSON.stringify(value);
}

export function isObject(value: Json | undefined): value is JsonObject {
  return (
    typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof ExactNumber)
  );
}

export function isList(value: Json | undefined): value is readonly Json[] {
  return Array.isArray(value);
}

/** The string at `key`, undefined when there is none or something else. */
export function stringAt(object: JsonObject, key: string): string | undefined {
  const value = object[key];
  return typeof value === "string" ? value : undefined;
}

/** `null` for a missing value; `1.0` is an integer too. */
export function integerOf(value: Json | undefined): number | undefined {
  const number = value instanceof ExactNumber ? Number(value.text) : value;
  return typeof number === "number" && Number.isSafeInteger(number) ? number : undefined;
}

class Parser {
  #at = 0;
  #depth = 0;

  constructor(private readonly text: string) {}

  document(): Json {
    const value = this.#value();
    this.#skipBlanks();
    if (this.#at < this.text.length) this.#fail(`unexpected ${this.#here()} after the value`);
    return value;
  }

  #value(): Json {
    this.#skipBlanks();
    switch (this.text[this.#at]) {
      case "{":
        return this.#nested(() => this.#object());
      case "[":
        return this.#nested(() => this.#list());
      case '"':
        return this.#string();
      case "t":
        return this.#word("true", true);
      case "f":
        return this.#word("false", false);
      case "n":
        return this.#word("null", null);
      default:
        return this.#number();
    }
  }

  #nested<T>(parse: () => T): T {
    this.#depth += 1;
    if (this.#depth > deepest) this.#fail(`nested more than ${String(deepest)} levels deep`);
    const value = parse();
    this.#depth -= 1;
    return value;
  }

  #object(): JsonObject {
    const members: [string, Json][] = [];
    this.#at += 1;
    if (this.#take("}")) return {};
    do {
      this.#skipBlanks();
      if (this.text[this.#at] !== '"') this.#fail(`expected a key in quotes, found ${this.#here()}`);
      const key = this.#string();
      if (!this.#take(":"))
        this.#fail(`expected ":" after the key ${JSON.stringify(key)}, found ${this.#here()}`);
      members.push([key, this.#value()]);
    } while (this.#take(","));
    if (!this.#take("}")) this.#fail(`expected "," or "}", found ${this.#here()}`);
    // Defines every key as its own, also `__proto__`.
    return Object.fromEntries(members);
  }

  #list(): Json[] {
    const values: Json[] = [];
    this.#at += 1;
    if (this.#take("]")) return values;
    do values.push(this.#value());
    while (this.#take(","));
    if (!this.#take("]")) this.#fail(`expected "," or "]", found ${this.#here()}`);
    return values;
  }

  #string(): string {
    const token = this.#match(stringForm);
    if (token === undefined) this.#fail("broken string: missing end quote, bad escape or line break inside");
    return JSON.parse(token) as string;
  }

  #number(): number | ExactNumber {
    const token = this.#match(numberForm);
    if (token === undefined) this.#fail(`expected a value, found ${this.#here()}`);
    const number = Number(token);
    return String(number) === token ? number : new ExactNumber(token);
  }

  #word<T>(word: string, value: T): T {
    if (!this.text.startsWith(word, this.#at)) this.#fail(`expected a value, found ${this.#here()}`);
    this.#at += word.length;
    return value;
  }

  #take(character: string): boolean {
    this.#skipBlanks();
    if (this.text[this.#at] !== character) return false;
    this.#at += 1;
    return true;
  }

  #match(form: RegExp): string | undefined {
    form.lastIndex = this.#at;
    const token = form.exec(this.text)?.[0];
    if (token !== undefined) this.#at += token.length;
    return token;
  }

  #skipBlanks(): void {
    this.#match(blanks);
  }

  #here(): string {
    const code = this.text.codePointAt(this.#at);
    return code === undefined ? "the end" : JSON.stringify(String.fromCodePoint(code));
  }

  #fail(reason: string): never {
    const before = this.text.slice(0, this.#at).split("\n");
    throw new JsonSyntaxError(reason, before.length, (before.at(-1)?.length ?? 0) + 1);
  }
}
