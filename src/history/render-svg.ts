/** An explanation as a picture: a row for each step, its waits in it. Pauses between steps are cut short. Pure. */
import { formatSpan, formatTime } from "./durations.js";
import type { Explanation, Step } from "./explain.js";
import type { RecordedSpan } from "./history-record.js";

const labelWidth = 300;
const axisWidth = 700;
const resultWidth = 260;
const margin = 12;
const rowHeight = 22;
const barHeight = 14;
const width = labelWidth + axisWidth + resultWidth + 2 * margin;
const mostRows = 200;
const mostCauses = 3;
const labelCharacters = 44;
const resultCharacters = 40;
const causeCharacters = 170;
const titleCharacters = 400;
/** A longer pause is drawn as wide as this part of what is done. */
const pauseShare = 0.04;

/** Fills that can be read on white and on black. */
const fills: Readonly<Record<RecordedSpan["kind"] | "call" | "exit", string>> = {
  ...{ call: "#9ca3af", exit: "#4ade80", engine: "#60a5fa", plugin: "#f472b6", program: "#fdba74" },
  ...{ lock: "#fde047", pull: "#a78bfa", wait: "#2dd4bf" },
};

const style = `
  text { font: 12px system-ui, sans-serif; fill: #1f2328; }
  .page { fill: #ffffff; }
  .cause { font-weight: 600; }
  .small { font-size: 11px; }
  .failed { stroke: #dc2626; stroke-width: 2; }
  .pause { stroke: #8c959f; stroke-dasharray: 2 3; }
${Object.entries(fills)
  .map(([kind, fill]) => `  .${kind} { fill: ${fill}; }\n`)
  .join("")}  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .page { fill: #0d1117; }
  }
`;

type Scale = (at: number) => number;

interface Stretch {
  readonly from: number;
  to: number;
}

export function renderSvg({ pod, container, causes, steps, at: nowMs }: Explanation): string {
  const shown = steps.slice(-mostRows);
  const head = [
    `${pod}${container === undefined ? "" : ` "${container}"`}`,
    ...causes.slice(0, mostCauses),
    ...(steps.length > shown.length ? [`${steps.length - shown.length} earlier steps are not shown`] : []),
  ];
  const top = margin + head.length * rowHeight + rowHeight;
  const height = top + shown.length * rowHeight + margin;
  const { x, pauses } = scaleOf(shown);
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">`,
    `<title>${escaped(head[0] ?? "", titleCharacters)}: ${escaped(causes[0] ?? "", titleCharacters)}</title>`,
    `<style>${style}</style>`,
    `<rect class="page" width="${width}" height="${height}"/>`,
    ...head.map((line, index) =>
      text(margin, margin + (index + 1) * rowHeight - 8, "cause", line, causeCharacters),
    ),
    ...legend(shown, top - rowHeight),
    ...pauses.map((at) => {
      const place = `x1="${fixed(at)}" y1="${top}" x2="${fixed(at)}" y2="${height - margin}"`;
      return `<line class="pause" ${place}/>`;
    }),
    ...shown.flatMap((step, index) => drawStep(step, top + index * rowHeight, x, nowMs)),
    "</svg>",
  ];
  return `${parts.join("\n")}\n`;
}

/** What runs is not drawn from its begin: a container may run for days. */
function stretchOf({ kind, at, ms }: Step): Stretch {
  return kind === "exit" ? { from: at, to: at } : { from: at, to: at + ms };
}

/** Stretches in which something was done are to scale; pauses between them have one width. */
function scaleOf(steps: readonly Step[]): { readonly x: Scale; readonly pauses: readonly number[] } {
  const stretches: Stretch[] = [];
  for (const { from, to } of steps.map(stretchOf).sort((a, b) => a.from - b.from)) {
    const last = stretches.at(-1);
    if (last === undefined || from > last.to) stretches.push({ from, to });
    else last.to = Math.max(last.to, to);
  }
  const busyMs = Math.max(
    1,
    stretches.reduce((sum, { from, to }) => sum + to - from, 0),
  );
  const longestMs = busyMs * pauseShare;
  const places: { readonly from: number; readonly to: number; readonly left: number }[] = [];
  const cuts: number[] = [];
  let left = 0;
  let end: number | undefined;
  for (const { from, to } of stretches) {
    if (end !== undefined) {
      if (from - end > longestMs) cuts.push(left + longestMs / 2);
      left += Math.min(from - end, longestMs);
    }
    places.push({ from, to, left });
    left += to - from;
    end = to;
  }
  const factor = axisWidth / Math.max(left, 1);
  const pixel = (offset: number): number => margin + labelWidth + offset * factor;
  const x: Scale = (at) => {
    const place = places.findLast(({ from }) => from <= at) ?? places[0];
    if (place === undefined) return pixel(0);
    return pixel(place.left + Math.min(Math.max(at, place.from), place.to) - place.from);
  };
  return { x, pauses: cuts.map(pixel) };
}

function legend(steps: readonly Step[], y: number): readonly string[] {
  const used = new Set<string>(steps.map(({ kind }) => kind));
  const add = ({ kind, below = [] }: RecordedSpan): void => {
    used.add(kind);
    below.forEach(add);
  };
  for (const { waits } of steps) waits.forEach(add);
  return Object.keys(fills)
    .filter((kind) => used.has(kind))
    .flatMap((kind, index) => {
      const left = margin + labelWidth + index * 84;
      const square = `<rect class="${kind}" x="${left}" y="${y + 2}" width="12" height="12" rx="2"/>`;
      return [square, text(left + 17, y + 12, "small", kind, labelCharacters)];
    });
}

function drawStep(step: Step, top: number, x: Scale, nowMs: number): readonly string[] {
  const { kind, at, ms, what, result, failed, waits } = step;
  const { from, to } = stretchOf(step);
  const label = `${formatTime(at, nowMs)} ${what}`;
  const outcome = `${kind === "exit" ? "ran " : ""}${formatSpan(ms)}: ${result}`;
  const title = `${what}: ${outcome}`;
  const bar = { kind, from, to, failed, title };
  return [
    text(margin, top + rowHeight - 7, "small", label, labelCharacters),
    drawBar(bar, top, x),
    ...waits.flatMap((wait) => drawWait(wait, at, top, x)),
    text(margin + labelWidth + axisWidth + 8, top + rowHeight - 7, "small", outcome, resultCharacters),
  ];
}

/** The innermost waits: each is part of the one around it. */
function drawWait(wait: RecordedSpan, callAt: number, top: number, x: Scale): readonly string[] {
  const { kind, what, at, ms, error, below = [] } = wait;
  if (below.length > 0) return below.flatMap((one) => drawWait(one, callAt, top, x));
  const title = `${what}: ${formatSpan(ms)}${error === undefined ? "" : `: ${error}`}`;
  const times = { from: callAt + at, to: callAt + at + ms };
  return [drawBar({ kind, ...times, failed: error !== undefined, title }, top, x)];
}

interface Bar extends Stretch {
  readonly kind: keyof typeof fills;
  readonly failed: boolean;
  readonly title: string;
}

function drawBar({ kind, from, to, failed, title }: Bar, top: number, x: Scale): string {
  const left = x(from);
  const wide = Math.max(kind === "exit" ? 5 : 1, x(to) - left);
  const place = `x="${fixed(left)}" y="${top + 4}" width="${fixed(wide)}" height="${barHeight}" rx="2"`;
  const classes = failed ? `${kind} failed` : kind;
  return `<rect class="${classes}" ${place}><title>${escaped(title, titleCharacters)}</title></rect>`;
}

function text(x: number, y: number, classes: string, content: string, characters: number): string {
  return `<text class="${classes}" x="${fixed(x)}" y="${fixed(y)}">${escaped(content, characters)}</text>`;
}

function fixed(value: number): number {
  return Math.round(value * 10) / 10;
}

const entities: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };

/** Other characters that are replaced must not be in XML at all. */
function escaped(content: string, characters: number): string {
  const cut = content.length <= characters ? content : `${content.slice(0, characters - 1)}…`;
  const replaced = /[&<>"\p{Cc}\p{Bidi_Control}\uD800-\uDFFF\uFFFE\uFFFF]/gu;
  return cut.replaceAll(replaced, (character) => entities[character] ?? "\uFFFD");
}
