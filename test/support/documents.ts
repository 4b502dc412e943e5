/** The documents of this repository, relative to its root. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));

export function documents(): readonly string[] {
  const below = (directory: string): readonly string[] =>
    readdirSync(join(root, directory), { recursive: true, encoding: "utf8" }).map((name) =>
      join(directory, name),
    );
  const files = [
    ...readdirSync(root),
    ...["docs", "checkpoints", "native", "proto", "examples", ".github"].flatMap(below),
  ];
  return files.filter((name) => name.endsWith(".md"));
}
