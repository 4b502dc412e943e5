// Writes docs/play/play-podman.md: what play and podman do with each field.
import { writeFile } from "node:fs/promises";
import { tsImport } from "tsx/esm/api";

const { renderPodmanTable } = await tsImport("../test/support/podman-table.ts", import.meta.url);
await writeFile(new URL("../docs/play/play-podman.md", import.meta.url), await renderPodmanTable());
