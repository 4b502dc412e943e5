import { isDeepStrictEqual } from "node:util";
import type { Job } from "../manifests/workloads.js";

/** Whether they ask for the same, wherever that is written. */
export function isSameJob(left: Job, right: Job): boolean {
  const content = ({ source: _, line: _line, template, ...job }: Job): unknown => {
    const { source: _source, line: _at, ...rest } = template;
    return { ...job, template: rest };
  };
  return isDeepStrictEqual(content(left), content(right));
}
