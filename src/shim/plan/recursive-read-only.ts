/** Whether the node can mount a directory read-only with all mounts below it. */
import type { NodeFacts } from "../domain/node-facts.js";
import { runtimeFacts } from "./runtime-handler.js";

/** First API version whose bind options tell recursive and plain read-only apart; below it read-only is never recursive. */
export const readOnlyOptionsApiMinor = 44;

/**
 * Undefined when `runtime` (a Docker runtime, `""` for the default) can do it, else why not. Needs the engine's bind
 * options, mount_setattr of Linux 5.12, and an OCI runtime that says so. Status announces the same.
 */
export function whyNoRecursiveReadOnly(facts: NodeFacts, runtime: string): string | undefined {
  if (facts.apiMinor < readOnlyOptionsApiMinor) {
    return `needs Docker API 1.${String(readOnlyOptionsApiMinor)}, the engine is used with 1.${String(facts.apiMinor)}`;
  }
  if (!kernelAtLeast(facts.kernelVersion, 5, 12))
    return `needs Linux 5.12, the node runs ${facts.kernelVersion}`;
  if (runtimeFacts(runtime, facts)?.recursiveReadOnly !== true)
    return "the engine's OCI runtime does not offer it";
  return undefined;
}

function kernelAtLeast(version: string, major: number, minor: number): boolean {
  const match = /^(\d+)\.(\d+)/.exec(version);
  if (match === null) return false;
  const [actualMajor, actualMinor] = [Number(match[1]), Number(match[2])];
  return actualMajor > major || (actualMajor === major && actualMinor >= minor);
}
