/** Names, messages, times and durations as the page shows them. */
import { html, type Html } from "./html.js";

const longestName = 100;
const longestMessage = 500;

export function shownName(text: string): string {
  return cut(text, longestName);
}

/** In one line. */
export function shownMessage(text: string): string {
  return cut(text.slice(0, 2 * longestMessage).replaceAll(/\s+/g, " "), longestMessage);
}

function cut(text: string, longest: number): string {
  return text.length <= longest ? text : `${text.slice(0, longest)}…`;
}

/** In UTC, as of `kubectl --output yaml`. */
export function shownTime(ms: number): Html {
  const text = new Date(ms).toISOString();
  return html`<time datetime="${text}">${text.slice(0, 19)}Z</time>`;
}

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;

/** `120 ms`, `3.1 s`, `4 min 5 s`, `2 h 0 min`, `3 d 4 h`; 0 ms for a clock that was set back. */
export function shownDuration(ms: number): string {
  if (ms < 1000) return `${String(Math.max(0, Math.floor(ms)))} ms`;
  if (ms < minuteMs) return `${(Math.floor(ms / 100) / 10).toFixed(1)} s`;
  if (ms < hourMs) return two(ms, minuteMs, "min", 1000, "s");
  return ms < dayMs ? two(ms, hourMs, "h", minuteMs, "min") : two(ms, dayMs, "d", hourMs, "h");
}

function two(ms: number, large: number, largeName: string, small: number, smallName: string): string {
  const rest = Math.floor((ms % large) / small);
  return `${String(Math.floor(ms / large))} ${largeName} ${String(rest)} ${smallName}`;
}

/** Milliseconds of the CRI's nanoseconds. */
export function milliseconds(nanoseconds: bigint): number {
  return Number(nanoseconds / 1_000_000n);
}
