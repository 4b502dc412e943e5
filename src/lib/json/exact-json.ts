/**
 * JSON without loss. `JSON.parse` rounds integers beyond 2^53 and turns `1.50` into `1.5`; a plugin must get
 * its configuration as it was written. Errors name line and column.
 */

/** A number whose text `Number` does not give back, such as `12345678901234567` or `1.50`. */
export class ExactNumber {
  constructor(readonly text: string) {}
}

export type Json = null | boolean | number | string | ExactNumber | readonly Json[] | JsonObject;

export interface JsonObject {
  readonly [key: string]: Json;
}

/** Line and column are counted from 1, columns in UTF-16 units. */
export class JsonSyntaxError extends Error {
  override readonly name = "JsonSyntaxError";

  constructor(
    readonly reason: string,
    readonly line: number,
    readonly column: number,
  ) {
    super(`line ${line}, column ${column}: ${reason}`);
  }
}

export interface ParseOptions {
  /** Deeper texts are attacks or accidents: the parser recurses. */
  readonly maxDepth?: number;
  /** Called when a key occurs in `object` more than once; without it the last value counts, as in Go. */
  readonly onRepeatedKey?: (object: JsonObject, key: string) => void;
}

const defaultMaxDepth = 200;
const numberForm = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?/y;
const blanks = /[ \t\n\r]*/y;

/** The value of a JSON text. Throws `JsonSyntaxError`. */
export function parseJson(text: string, options: ParseOptions = {}): Json {
  return new Parser(text, options).document();
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

/** Undefined for anything but an integer; `1.0` is one, too. */
export function integerOf(value: Json | undefined): number | undefined {
  const number = value instanceof ExactNumber ? Number(value.text) : value;
  return typeof number === "number" && Number.isSafeInteger(number) ? number : undefined;
}

class Parser {
  #at = 0;
  #depth = 0;

  constructor(
    private readonly text: string,
    private readonly options: ParseOptions,
  ) {}

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
    const { maxDepth = defaultMaxDepth } = this.options;
    if (this.#depth > maxDepth) this.#fail(`nested more than ${maxDepth} levels deep`);
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
    const object: JsonObject = Object.fromEntries(members);
    this.#reportRepeatedKeys(object, members);
    return object;
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

  #reportRepeatedKeys(object: JsonObject, members: readonly (readonly [string, Json])[]): void {
    const { onRepeatedKey } = this.options;
    if (onRepeatedKey === undefined || Object.keys(object).length === members.length) return;
    const seen = new Set<string>();
    for (const [key] of members) {
      if (seen.has(key)) onRepeatedKey(object, key);
      seen.add(key);
    }
  }

  /** Finds the end quote by a loop: a regular expression would need a stack as deep as the string is long. */
  #string(): string {
    const start = this.#at;
    let end = start + 1;
    while (end < this.text.length && this.text[end] !== '"') end += this.text[end] === "\\" ? 2 : 1;
    try {
      const value = JSON.parse(this.text.slice(start, end + 1)) as string;
      this.#at = end + 1;
      return value;
    } catch {
      return this.#fail("broken string: missing end quote, bad escape or line break inside");
    }
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
