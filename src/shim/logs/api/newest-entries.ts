/** Whether the engine's clock was set back, by the newest entries of a container's log. */
import { readLines, secondIn, type ApiSource } from "./api-lines.js";
import { beforeSecond, marginSeconds } from "./replay.js";

/** Engines find them from the end of the log. A clock that was set back before them is not noticed. */
const entries = 100;
const newline = 0x0a;

/**
 * From which second on a replay has all that was written since the clock was set back behind `since`, when
 * something shows that it was: two of the newest entries, the newest one alone, or `last`, the last line that
 * is written. Undefined when a replay from `since` has it.
 */
export async function setBackTo(
  { engine, containerId, tty }: Pick<ApiSource, "engine" | "containerId" | "tty">,
  { since, last }: { readonly since: number; readonly last: Buffer | undefined },
  signal: AbortSignal,
): Promise<number | undefined> {
  // A replay of everything has every line.
  if (since === 0) return undefined;
  const options = { sinceSeconds: 0, follow: false, tty, tail: entries };
  const stream = await engine.containerLogs(containerId, options, signal);
  const newest = new NewestEntries();
  try {
    await readLines(stream, { losesLineEnds: false }, (lines) => {
      newest.add(lines);
      return Promise.resolve();
    });
  } finally {
    stream.close();
  }
  const seconds = [newest.oldestAfterStep, newest.last, last && secondIn(last)];
  const oldest = Math.min(...seconds.filter((second) => second !== undefined));
  if (oldest >= since) return undefined;
  // How far it was set back is only seen where that was.
  return newest.oldestAfterStep === undefined ? 0 : beforeSecond(oldest);
}

class NewestEntries {
  oldestAfterStep: number | undefined;
  last: number | undefined;
  #newest = 0;

  add(lines: Buffer): void {
    for (let start = 0; start < lines.length; start = lines.indexOf(newline, start) + 1) {
      const second = secondIn(lines.subarray(start));
      if (second === 0) continue;
      if (second < this.#newest - marginSeconds) {
        this.oldestAfterStep = Math.min(this.oldestAfterStep ?? second, second);
      }
      this.#newest = Math.max(this.#newest, second);
      this.last = second;
    }
  }
}
