/** Draws a timeline as one SVG: an axis in seconds, a row for each pod and container. Pure. */
import { cutText } from "./format-table.js";
import { oneLine } from "./colours.js";
import type { Bar, BarKind, Mark, TimelineData, TimelineRow } from "./timeline.js";

const labelWidth = 230;
const axisWidth = 740;
const margin = 12;
const rowHeight = 22;
const barHeight = 14;
const topHeight = 64;
const width = labelWidth + axisWidth + 2 * margin;
/** The width of a character of bar labels, in pixels. */
const characterWidth = 6;
const labelCharacters = 34;
const rowLimit = 200;

const names: Readonly<Record<BarKind, string>> = {
  sandbox: "sandbox",
  pull: "pull",
  create: "create",
  start: "start",
  hook: "hook",
  wait: "back-off",
  run: "runs, not ready",
  ready: "ready",
};

/** Fills that can be read on white and on black; text in bars is dark on all of them. */
const fills: Readonly<Record<BarKind, string>> = {
  sandbox: "#a78bfa",
  pull: "#60a5fa",
  create: "#22d3ee",
  start: "#2dd4bf",
  hook: "#f472b6",
  wait: "#fdba74",
  run: "#fde047",
  ready: "#4ade80",
};

const style = `
  text { font: 12px system-ui, sans-serif; fill: #1f2328; }
  .page { fill: #ffffff; }
  .pod { font-weight: 600; }
  .small { font-size: 11px; }
  .inside { font-size: 10px; fill: #111111; }
  .grid { stroke: #d0d7de; stroke-width: 1; }
  .broken { stroke: #dc2626; stroke-width: 2; }
  .failure { fill: #dc2626; }
  .end { fill: #57606a; }
  .kill { fill: #ea580c; }
${Object.entries(fills)
  .map(([kind, fill]) => `  .${kind} { fill: ${fill}; }\n`)
  .join("")}  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .inside { fill: #111111; }
    .page { fill: #0d1117; }
    .grid { stroke: #30363d; }
    .end { fill: #9198a1; }
    .failure { fill: #f87171; }
    .broken { stroke: #f87171; }
  }
`;

export function renderTimeline({ rows, skipped }: TimelineData): string {
  const shown = rows.slice(0, rowLimit);
  const { from, to } = range(shown);
  const scale = axisWidth / (to - from);
  const x = (at: number): number => labelWidth + margin + (Math.min(Math.max(at, from), to) - from) * scale;
  const notes = [
    ...(rows.length > rowLimit ? [`${rows.length - rowLimit} more rows are not shown.`] : []),
    ...(skipped > 0 ? [`${skipped} later steps are not shown.`] : []),
  ];
  const bottom = topHeight + shown.length * rowHeight;
  const height = bottom + margin + notes.length * rowHeight;
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">`,
    `<title>Timeline of ${shown.filter(({ isPod }) => isPod).length} pods</title>`,
    `<style>${style}</style>`,
    `<rect class="page" width="${width}" height="${height}"/>`,
    ...legend(shown),
    ...axis(from, to, x, bottom),
    ...shown.flatMap((row, index) => drawRow(row, topHeight + index * rowHeight, x, to)),
    ...notes.map((note, index) => text(margin, bottom + (index + 1) * rowHeight, "small", note)),
    "</svg>",
  ];
  return `${parts.join("\n")}\n`;
}

/** What goes on at the end is cut soon after the last change, so that starts can be seen. */
function range(rows: readonly TimelineRow[]): { readonly from: number; readonly to: number } {
  let from = Infinity;
  let to = -Infinity;
  for (const { bars, marks } of rows) {
    for (const bar of bars) {
      from = Math.min(from, bar.from);
      to = Math.max(to, bar.to ?? bar.from);
    }
    for (const { at } of marks) {
      from = Math.min(from, at);
      to = Math.max(to, at);
    }
  }
  if (from > to) return { from: 0, to: 1000 };
  return { from, to: to + Math.max(100, (to - from) * 0.05) };
}

function legend(rows: readonly TimelineRow[]): readonly string[] {
  const used = new Set(rows.flatMap(({ bars }) => bars.map(({ kind }) => kind)));
  const parts: string[] = [];
  let left = margin;
  for (const kind of Object.keys(names) as BarKind[]) {
    if (!used.has(kind)) continue;
    parts.push(`<rect class="${kind}" x="${left}" y="12" width="12" height="12" rx="2"/>`);
    parts.push(text(left + 17, 22, "small", names[kind]));
    left += 38 + names[kind].length * characterWidth;
  }
  return parts;
}

function axis(from: number, to: number, x: (at: number) => number, bottom: number): readonly string[] {
  const step = tickOf((to - from) / 1000);
  const digits = Math.max(0, -Math.floor(Math.log10(step)));
  const parts: string[] = [];
  for (let index = 0; index * step * 1000 <= to - from; index += 1) {
    const at = fixed(x(from + index * step * 1000));
    parts.push(`<line class="grid" x1="${at}" y1="${topHeight - 8}" x2="${at}" y2="${bottom}"/>`);
    const label = text(at, topHeight - 14, "small", `${(index * step).toFixed(digits)} s`);
    parts.push(label.replace("<text", '<text text-anchor="middle"'));
  }
  return parts;
}

/** Seconds between lines of the axis: 1, 2 or 5 times a power of ten, for at most ten lines. */
function tickOf(seconds: number): number {
  const power = 10 ** Math.floor(Math.log10(seconds / 10));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => seconds / step <= 10) ?? 10 * power;
}

function drawRow(row: TimelineRow, top: number, x: (at: number) => number, end: number): readonly string[] {
  const label = cutText(oneLine(row.label), labelCharacters);
  const left = row.isPod ? margin : margin + 14;
  return [
    text(left, top + rowHeight - 7, row.isPod ? "pod" : "", label),
    ...[...row.bars].sort(statesFirst).flatMap((bar) => drawBar(bar, top, x, end)),
    ...row.marks.map((mark) => drawMark(mark, top, x)),
  ];
}

/** States lie below steps: a container runs already during its postStart hook. */
function statesFirst(left: Bar, right: Bar): number {
  const isStep = ({ kind }: Bar): boolean => kind !== "run" && kind !== "ready" && kind !== "wait";
  return Number(isStep(left)) - Number(isStep(right));
}

function drawBar(bar: Bar, top: number, x: (at: number) => number, end: number): readonly string[] {
  const left = x(bar.from);
  const wide = Math.max(1, x(bar.to ?? end) - left);
  const took = bar.to === undefined ? "" : ` ${seconds(bar.to - bar.from)}`;
  const title = `<title>${escaped(`${bar.title}${bar.to === undefined ? "" : `:${took}`}`)}</title>`;
  const classes = bar.isFailure ? `${bar.kind} broken` : bar.kind;
  const place = `x="${fixed(left)}" y="${top + 4}" width="${fixed(wide)}" height="${barHeight}" rx="2"`;
  const label = `${names[bar.kind]}${took}`;
  const inside = label.length * characterWidth + 6 <= wide;
  return [
    `<rect class="${classes}" ${place}>${title}</rect>`,
    ...(inside ? [text(fixed(left + 4), top + 15, "inside", label)] : []),
  ];
}

function drawMark({ kind, at, title }: Mark, top: number, x: (at: number) => number): string {
  const place = `cx="${fixed(x(at))}" cy="${top + 4 + barHeight / 2}" r="4"`;
  return `<circle class="${kind}" ${place}><title>${escaped(title)}</title></circle>`;
}

function seconds(milliseconds: number): string {
  return milliseconds < 1000 ? `${Math.round(milliseconds)} ms` : `${(milliseconds / 1000).toFixed(1)} s`;
}

function fixed(value: number): number {
  return Math.round(value * 10) / 10;
}

function text(x: number, y: number, classes: string, content: string): string {
  return `<text class="${classes}" x="${x}" y="${y}">${escaped(content)}</text>`;
}

/** Other characters that are replaced must not be in XML at all. */
const entities: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };

/** Messages of events have no limit of their own. */
const titleCharacters = 400;

function escaped(content: string): string {
  const cut = cutText(oneLine(content), titleCharacters);
  return cut.replaceAll(/[&<>"\uD800-\uDFFF\uFFFE\uFFFF]/gu, (character) => entities[character] ?? "\uFFFD");
}
