/**
 * Which results of execs have a record. Probes come all the time, and two of one container may differ each time, as a
 * readiness probe that fails beside a liveness probe that does not: a record of each change would fill the history.
 */
import { LruMap } from "../lib/lru-map.js";
import type { EndedCall } from "../shim/ports/ended-calls.js";

/** An exec that takes as long is news. */
export const slowExecMs = 1000;
/** A result that is no news to its container has a record as rarely; one that fails not more rarely. */
export const execPauseMs = 10 * 60_000;
const mostContainers = 2000;
/** Of a container; further ones are counted together. */
const mostResults = 8;

interface Result {
  readonly failed: boolean;
  recordedMs: number;
  /** Execs with it since then. */
  repeats: number;
}

interface ContainerResults {
  /** That of the last record. */
  recorded: string;
  readonly byText: Map<string, Result>;
}

export class ExecResults {
  readonly #containers = new LruMap<string, ContainerResults>(mostContainers);

  /** How many equal ones before it have no record; undefined when the exec needs none itself. */
  note({ code, startMs, ms, subject: { containerId = "", exitCode = 0 } }: EndedCall): number | undefined {
    const failed = code !== "OK" || exitCode !== 0;
    const isSlow = ms >= slowExecMs;
    const results = this.#containers.get(containerId) ?? { recorded: "", byText: new Map<string, Result>() };
    const { byText } = results;
    const own = `${code} ${exitCode}${isSlow ? " slow" : ""}`;
    const text = byText.has(own) || byText.size < mostResults ? own : "others";
    const known = byText.get(text);
    const isNews = failed || isSlow || text !== results.recorded;
    if (known !== undefined && !(isNews && startMs - known.recordedMs >= execPauseMs)) {
      known.repeats += 1;
      return undefined;
    }
    results.recorded = text;
    this.#containers.set(containerId, results);
    byText.set(text, { failed, recordedMs: startMs, repeats: 0 });
    return known?.repeats ?? 0;
  }

  /** The container has ended: how many have no record. */
  end(containerId: string): { readonly execs: number; readonly failed: number } {
    const results = [...(this.#containers.get(containerId)?.byText.values() ?? [])];
    this.#containers.delete(containerId);
    const sum = (of: readonly Result[]): number => of.reduce((count, { repeats }) => count + repeats, 0);
    return { execs: sum(results), failed: sum(results.filter(({ failed }) => failed)) };
  }
}
