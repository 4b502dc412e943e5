/** The tags of an HTML page, read strictly. */
import assert from "node:assert/strict";

export interface Tag {
  readonly name: string;
  readonly attributes: ReadonlyMap<string, string>;
  /** Names of the elements around it, the outermost first. */
  readonly within: readonly string[];
  /** What follows it up to the next tag, trimmed. */
  readonly text: string;
}

const empty = new Set(["meta", "link", "img"]);

/** Fails when a `<` or `>` belongs to no tag, an attribute has no quotes or is there twice, or tags do not nest. */
export function tagsOf(body: string): readonly Tag[] {
  const page = body.replace(/^<!doctype html>/, "");
  const pattern = /<(\/?)([a-z][a-z0-9]*)((?:\s+[a-z-]+="[^"<>]*")*)\s*\/?>([^<>]*)/g;
  const found = [...page.matchAll(pattern)];
  const rest = page.replaceAll(pattern, "").trim();
  assert.equal(rest, "", "text that belongs to no tag");
  const open: string[] = [];
  const tags: Tag[] = [];
  for (const [, slash, name = "", written = "", text = ""] of found) {
    if (slash === "/") {
      assert.equal(name, open.pop(), "the end of an element");
      continue;
    }
    const pairs = [...written.matchAll(/([a-z-]+)="([^"]*)"/g)];
    const attributes = new Map(pairs.map(([, key = "", value = ""]) => [key, value] as const));
    assert.equal(attributes.size, pairs.length, `attributes of ${name}`);
    tags.push({ name, attributes, within: [...open], text: text.trim() });
    if (!empty.has(name)) open.push(name);
  }
  assert.deepEqual(open, [], "elements without an end");
  return tags;
}
