/** The strategies by which pods of a changed workload are made anew. */
import { notNegative } from "./readers.js";
import { type Reader, malformed, object, oneOf } from "./schema.js";

/** A number, or a percentage as text. */
const count: Reader<number | string> = (value, path, problems) => {
  if (typeof value === "number") return notNegative(value, path, problems);
  if (typeof value === "string" && /^\d{1,9}%$/.test(value)) return value;
  problems.push(malformed(path, 'must be a whole number, or a percentage such as "25%"'));
  return undefined;
};
const limits = object({ maxSurge: count, maxUnavailable: count });

export const deploymentStrategy = object({
  type: oneOf(["RollingUpdate", "Recreate"]),
  rollingUpdate: limits,
});
export const daemonSetStrategy = object({
  type: oneOf(["RollingUpdate", "OnDelete"]),
  rollingUpdate: limits,
});
export const statefulSetStrategy = object({
  type: oneOf(["RollingUpdate", "OnDelete"]),
  rollingUpdate: object({ partition: notNegative, maxUnavailable: count }),
});
