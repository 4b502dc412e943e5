#!/usr/bin/env node
/**
 * Plays examples/shop.yaml at a CRI server and writes docs/play/pictures: the table as a terminal shows it, and the timeline.
 *
 *   node scripts/play-pictures.mjs unix:///run/dockershim.sock
 */
/* eslint-disable no-control-regex -- ESC begins what a terminal acts on. */
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { tsImport } from "tsx/esm/api";
import { repositoryRoot } from "./setup/paths.mjs";

const [endpoint] = process.argv.slice(2);
if (endpoint === undefined) throw new Error("write the endpoint of a CRI server");

const pictures = join(repositoryRoot, "docs", "play", "pictures");
const files = [join("examples", "shop.yaml")];
const columns = 104;
const { runPlay } = await tsImport("../src/play/cli/play-command.ts", import.meta.url);

/** Frames of the table by the time of their drawing. @type {{ at: number, lines: string[] }[]} */
const frames = [];
const startedAt = Date.now();
const terminal = {
  isTTY: true,
  columns,
  rows: 30,
  /** @param {string} text */
  write: (text) => {
    // Each drawing begins where the one before did; what stands above the table is not part of the picture.
    const lines = text
      .replace(/^\u001B\[\d+A\r\u001B\[J/, "")
      .trimEnd()
      .split("\n");
    const head = lines.findIndex((line) => line.startsWith("POD "));
    if (head !== -1) frames.push({ at: Date.now() - startedAt, lines: lines.slice(head) });
  },
};
const quiet = { write: () => undefined };

process.chdir(repositoryRoot);
await mkdir(pictures, { recursive: true });
const { signal } = new AbortController();
const timeline = join(pictures, "play-timeline.svg");
const play = { files, endpoint, follow: false, down: false, fast: true, waitMs: 60_000, timeline };
const code = await runPlay(play, { stdout: quiet, stderr: terminal, signal });
await runPlay({ files, endpoint, follow: false, down: true }, { stdout: quiet, stderr: quiet, signal });
if (code !== 0) throw new Error(`play ended with ${code}`);

const last = frames.at(-1);
const statuses = (/** @type {{ lines: string[] }} */ { lines }) =>
  new Set(lines.slice(1).map((line) => plain(line).split(/\s{2,}/)[1])).size;
// The picture with the most states tells most.
const busy = frames.reduce((best, frame) => (statuses(frame) > statuses(best) ? frame : best));
await writeFile(join(pictures, "play-table.svg"), tableSvg([busy, ...(last === undefined ? [] : [last])]));

/** @param {string} line */
function plain(line) {
  return line.replaceAll(/\u001B\[\d+m/g, "");
}

/** @param {readonly { at: number, lines: string[] }[]} shown */
function tableSvg(shown) {
  const lineHeight = 19;
  const characterWidth = 7.83;
  /** @type {string[]} */
  const parts = [];
  let y = 28;
  for (const { at, lines } of shown) {
    parts.push(`<text class="note" x="16" y="${y}">after ${(at / 1000).toFixed(1)} s</text>`);
    for (const line of lines) {
      y += lineHeight;
      parts.push(`<text x="16" y="${y}">${spans(line.trimEnd())}</text>`);
    }
    y += 2 * lineHeight;
  }
  const width = Math.ceil(32 + columns * characterWidth);
  const height = y - lineHeight;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">
<title>The table of dockershim play</title>
<style>
  text { font: 13px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #1f2937; white-space: pre; }
  .page { fill: #f8fafc; stroke: #cbd5e1; }
  .note { fill: #64748b; }
  .c32 { fill: #15803d; } .c33 { fill: #a16207; } .c31 { fill: #b91c1c; } .c2 { fill: #94a3b8; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e2e8f0; }
    .page { fill: #0f172a; stroke: #334155; }
    .note { fill: #94a3b8; }
    .c32 { fill: #4ade80; } .c33 { fill: #facc15; } .c31 { fill: #f87171; } .c2 { fill: #64748b; }
  }
</style>
<rect class="page" x="0.5" y="0.5" width="${width - 1}" height="${height - 1}" rx="8"/>
${parts.join("\n")}
</svg>
`;
}

/** Colours become classes. @param {string} line */
function spans(line) {
  return escaped(line).replaceAll(/\u001B\[(\d+)m(.*?)\u001B\[0m/g, '<tspan class="c$1">$2</tspan>');
}

/** @param {string} text */
function escaped(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
