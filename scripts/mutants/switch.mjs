/**
 * Loaded into each process of a run of `npm run mutants`: turns on the mutant whose number is in DOCKERSHIM_MUTANT, and writes
 * the numbers of those that are reached into the file that DOCKERSHIM_MUTANTS_REACHED names. As a reporter of node's test
 * runner it ends the process at the first failure.
 */
import { appendFileSync, writeSync } from "node:fs";

const { DOCKERSHIM_MUTANT: active, DOCKERSHIM_MUTANTS_REACHED: file } = process.env;
const reached = new Set();

Reflect.set(globalThis, "$mutant", (/** @type {number} */ id) => {
  if (file !== undefined && !reached.has(id)) appendFileSync(file, `${String(id)}\n`);
  reached.add(id);
  return String(id) === active;
});

/** @param {AsyncIterable<{ type: string, data: { name?: string, todo?: string | boolean } }>} source */
export default async function* firstFailure(source) {
  for await (const { type, data } of source) {
    if (type !== "test:fail" || (data.todo ?? false) !== false) continue;
    writeSync(1, data.name ?? "");
    process.exit(1);
  }
  yield "";
}
