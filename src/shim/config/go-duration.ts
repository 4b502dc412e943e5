/** Durations in Go's format, which unit files and kubelet configurations use. */
import { ShimError } from "../../lib/errors.js";

const unitMs: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  "\u00b5s": 1e-3, // micro sign
  "\u03bcs": 1e-3, // Greek mu
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
};

/** The longest delay that a Node.js timer can wait; beyond it a timer fires at once. */
const longestTimerMs = 2 ** 31 - 1;

const term = /(\d+\.?\d*|\.\d+)(ns|us|\u00b5s|\u03bcs|ms|s|m|h)/g;

/**
 * Milliseconds of `1h30m`, `1m0s`, `1.5s`, `300ms` or a plain `0`, rounded up to 1 below a millisecond.
 * Throws `invalid` for other text, for negative durations and for durations that are too long for a timer.
 */
export function parseGoDuration(text: string): number {
  if (text === "0" || text === "+0" || text === "-0") return 0;
  if (text.startsWith("-")) throw new ShimError("invalid", "must not be negative");
  const unsigned = text.startsWith("+") ? text.slice(1) : text;
  if (/^\d+(?:\.\d*)?$/.test(unsigned)) {
    throw new ShimError("invalid", `needs a unit, as in "${unsigned}s"`);
  }
  let totalMs = 0;
  let end = 0;
  for (const match of unsigned.matchAll(term)) {
    if (match.index !== end) break;
    end = match.index + match[0].length;
    totalMs += Number(match[1]) * (unitMs[match[2] ?? ""] ?? Number.NaN);
  }
  if (end === 0 || end !== unsigned.length)
    throw new ShimError("invalid", 'is not a duration such as "1m30s"');
  // Rounding makes 0.1s exactly 100, although 0.1 has no exact binary form.
  const milliseconds = Math.ceil(Number(totalMs.toFixed(6)));
  if (milliseconds > longestTimerMs) throw new ShimError("invalid", "must be less than 596 hours");
  return milliseconds;
}

/** The form that Go prints: `1m30s`, `4h0m0s`, `1.5s`, `300ms`, `0s`. */
export function formatGoDuration(milliseconds: number): string {
  if (milliseconds === 0) return "0s";
  if (milliseconds < 1000) return `${milliseconds}ms`;
  const hours = Math.floor(milliseconds / 3_600_000);
  const minutes = Math.floor((milliseconds % 3_600_000) / 60_000);
  const seconds = `${(milliseconds % 60_000) / 1000}s`;
  if (hours > 0) return `${hours}h${minutes}m${seconds}`;
  return minutes > 0 ? `${minutes}m${seconds}` : seconds;
}
