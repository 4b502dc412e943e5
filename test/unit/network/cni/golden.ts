import { readFileSync } from "node:fs";
import { parseJson, type JsonObject } from "../../../../src/lib/json/exact-json.js";

/** A file of `test/golden/cni`. */
// eslint-disable-next-line @typescript-eslint/no-unnecessary-type-parameters -- the test knows what it recorded.
export function golden<T>(name: string): T {
  return JSON.parse(goldenText(name)) as T;
}

export function goldenText(name: string): string {
  return readFileSync(new URL(`../../../golden/cni/${name}`, import.meta.url), "utf8");
}

/** The result of a recorded ADD. */
export function recordedResult(name: string): JsonObject {
  const { runs } = golden<{ runs: Record<string, { result: unknown }> }>("results.json");
  const run = runs[name];
  if (run === undefined) throw new Error(`no recorded run ${name}`);
  return parseJson(JSON.stringify(run.result)) as JsonObject;
}
