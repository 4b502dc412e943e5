/** Nodes of YAML → values, as kubectl reads them: by the rules of go-yaml (version 2), then as JSON. */
import { ShimError } from "../../lib/errors.js";
import type * as YamlModule from "../../lib/yaml.js";
import { define, join } from "./schema.js";

export type Yaml = typeof YamlModule;
export type YamlDocument = Extract<ReturnType<Yaml["parseAllDocuments"]>, readonly unknown[]>[number];

/** All scalars are text, so that they are resolved here. */
export const parseOptions = {
  schema: "failsafe",
  resolveKnownTags: false,
  uniqueKeys: false,
  prettyErrors: false,
} as const;

type Node = NonNullable<YamlDocument["contents"]>;
type YamlMap = Extract<Node, { readonly items: readonly { readonly key: unknown }[] }>;

/** A key whose value replaces one that the same mapping has given before. */
export interface Replacement {
  readonly path: string;
  readonly offset: number;
}

export class YamlValues {
  /** Of the node that is read, for errors. */
  offset = 0;
  readonly replacements: Replacement[] = [];
  readonly #anchors = new Map<string, unknown>();
  /** The aliases that are being followed. */
  readonly #following: unknown[] = [];
  #read = 0;
  #readByAliases = 0;

  constructor(
    private readonly document: YamlDocument,
    private readonly yaml: Yaml,
  ) {}

  /** Throws `invalid` for what JSON cannot have, and for what cannot be resolved; then `offset` is its place. */
  value(): unknown {
    return this.#value(this.document.contents, "");
  }

  #value(node: unknown, path: string): unknown {
    const { isAlias, isMap, isScalar, isSeq } = this.yaml;
    this.#count();
    if (isAlias(node)) return this.#follow(node, (target) => this.#value(target, path));
    if (!isMap(node) && !isSeq(node) && !isScalar(node)) return null;
    this.offset = node.range?.[0] ?? this.offset;
    this.#remember(node);
    if (isSeq(node)) return node.items.map((item, index) => this.#value(item, `${path}[${index}]`));
    if (isScalar(node)) return scalarValue(node);
    const result: Record<string, unknown> = {};
    this.#fill(result, node, path);
    return result;
  }

  #fill(result: Record<string, unknown>, { items }: YamlMap, path: string): void {
    const given = new Set<string>();
    for (const { key, value } of items) {
      const { isScalar } = this.yaml;
      const isMerge = isScalar(key) && key.type === "PLAIN" && key.value === "<<";
      if (isMerge) {
        const before = new Map([...given].map((name) => [name, result[name]]));
        this.#merge(result, value, path);
        // As with kubectl, and unlike the rules of YAML.
        for (const [name, old] of before) if (result[name] !== old) this.#replaced(join(path, name));
        continue;
      }
      const name = this.#key(key);
      if (given.has(name)) this.#replaced(join(path, name));
      given.add(name);
      define(result, name, this.#value(value, join(path, name)));
    }
  }

  #replaced(path: string): void {
    this.replacements.push({ path, offset: this.offset });
  }

  /** Of several mappings, the first one counts. */
  #merge(result: Record<string, unknown>, node: unknown, path: string): void {
    const { isAlias, isMap, isSeq } = this.yaml;
    if (isSeq(node)) {
      for (const item of [...node.items].reverse()) this.#mergeOne(result, item, path);
      return;
    }
    if (!isMap(node) && !isAlias(node)) throw noMapping();
    this.#mergeOne(result, node, path);
  }

  #mergeOne(result: Record<string, unknown>, node: unknown, path: string): void {
    const { isAlias, isMap } = this.yaml;
    this.#count();
    if (isAlias(node)) this.#follow(node, (target) => this.#mergeOne(result, target, path));
    else if (isMap(node)) {
      this.#remember(node);
      this.#fill(result, node, path);
    } else throw noMapping();
  }

  /** What aliases stand for comes before them, and is the last node with the anchor. */
  #remember(node: { readonly anchor?: string | undefined }): void {
    if (node.anchor !== undefined && this.#following.length === 0) this.#anchors.set(node.anchor, node);
  }

  #key(node: unknown): string {
    const key = this.#value(node, "");
    if (typeof key === "string") return key;
    if (typeof key === "number" || typeof key === "boolean") return String(key);
    throw new ShimError("invalid", "a key must be text, a number or a boolean");
  }

  #follow<T>(alias: { readonly source: string }, read: (target: unknown) => T): T {
    const target = this.#anchors.get(alias.source);
    if (target === undefined)
      throw new ShimError("invalid", `there is no anchor "${alias.source}" before it`);
    if (this.#following.includes(target)) throw new ShimError("invalid", "an alias contains itself");
    this.#following.push(target);
    const result = read(target);
    this.#following.pop();
    return result;
  }

  /** The limit of go-yaml: what a few lines of aliases can stand for would fill the memory. */
  #count(): void {
    this.#read += 1;
    if (this.#following.length > 0) this.#readByAliases += 1;
    const share = 0.99 - 0.89 * Math.min(Math.max((this.#read - 400_000) / 3_600_000, 0), 1);
    if (this.#readByAliases > 100 && this.#read > 1000 && this.#readByAliases / this.#read > share)
      throw new ShimError("invalid", "the aliases stand for too much");
  }
}

function noMapping(): ShimError {
  return new ShimError("invalid", "<< takes a mapping, an alias of one, or a list of these");
}

const prefix = "tag:yaml.org,2002:";

function scalarValue(node: {
  readonly value: unknown;
  readonly type?: unknown;
  readonly tag?: string;
}): unknown {
  const text = String(node.value);
  const { tag } = node;
  if (tag === undefined || tag === "!") return node.type === "PLAIN" ? plainValue(text) : text;
  if (tag === `${prefix}binary`) return Buffer.from(text, "base64").toString();
  const types = tagTypes[tag.slice(prefix.length)];
  if (!tag.startsWith(prefix) || types === undefined) return text;
  const value = plainValue(text);
  if (types(value)) return value;
  throw new ShimError("invalid", `${JSON.stringify(text)} is not of the type !!${tag.slice(prefix.length)}`);
}

const tagTypes: Readonly<Record<string, (value: unknown) => boolean>> = {
  bool: (value) => typeof value === "boolean",
  int: Number.isInteger,
  float: (value) => typeof value === "number",
  null: (value) => value === null,
};

const spellings: readonly (readonly [string, unknown])[] = [
  ["y Y yes Yes YES true True TRUE on On ON", true],
  ["n N no No NO false False FALSE off Off OFF", false],
  ["~ null Null NULL", null],
  [".inf .Inf .INF +.inf +.Inf +.INF", Infinity],
  ["-.inf -.Inf -.INF", -Infinity],
  [".nan .NaN .NAN", NaN],
];
const words = new Map<string, unknown>([
  ["", null],
  ...spellings.flatMap(([list, value]) => list.split(" ").map((word) => [word, value] as const)),
]);

/** The value of a scalar without quotes. There are no sexagesimal numbers, and dates are text. */
function plainValue(text: string): unknown {
  if (words.has(text)) return words.get(text);
  if (!/^[-+.\d]/.test(text)) return text;
  const plain = text.startsWith(".") ? text : text.replaceAll("_", "");
  const integer = integerValue(plain);
  if (integer !== undefined) return integer;
  if (!/^[-+]?(\.\d+|\d+(\.\d*)?)([eE][-+]?\d+)?$/.test(plain)) return text;
  const number = Number(plain);
  return Number.isFinite(number) ? number : text;
}

/** `12`, `0x1f`, `0b11`, and `017` or `0o17`, of at most 64 bits. */
function integerValue(text: string): number | undefined {
  const [, sign = "", digits = ""] =
    /^([-+]?)(0|[1-9]\d*|0[xX][\da-fA-F]+|0[bB][01]+|0[oO]?[0-7]+)$/.exec(text) ?? [];
  if (digits === "") return undefined;
  const magnitude = BigInt(/^0\d/.test(digits) ? `0o${digits.slice(1)}` : digits);
  const value = sign === "-" ? -magnitude : magnitude;
  return value < -(2n ** 63n) || value >= 2n ** 64n ? undefined : Number(value);
}
