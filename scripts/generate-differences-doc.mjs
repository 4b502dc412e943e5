// Writes the section of docs/understand/differences.md about answers from the table of intended differences.
import { readFile, writeFile } from "node:fs/promises";
import { tsImport } from "tsx/esm/api";

const { withIntendedDifferences } = await tsImport("../src/compare/answers/intended-doc.ts", import.meta.url);
const file = new URL("../docs/understand/differences.md", import.meta.url);
await writeFile(file, withIntendedDifferences(await readFile(file, "utf8")));
