// Writes docs/run/flags.md from the table of options.
import { writeFile } from "node:fs/promises";
import { tsImport } from "tsx/esm/api";

const { renderFlagTable } = await tsImport("../src/shim/config/flag-docs.ts", import.meta.url);
await writeFile(new URL("../docs/run/flags.md", import.meta.url), renderFlagTable());
