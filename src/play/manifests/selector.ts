/** Label selectors. */
import { type Problem, malformed } from "./schema.js";
import type { Selector } from "./workload-schema.js";

export type Labels = Readonly<Record<string, string>>;

export function matchesLabels(selector: Labels, labels: Labels): boolean {
  return Object.entries(selector).every(
    ([key, value]) => Object.hasOwn(labels, key) && labels[key] === value,
  );
}

function matchesSelector({ matchLabels = {}, matchExpressions = [] }: Selector, labels: Labels): boolean {
  return (
    matchesLabels(matchLabels, labels) &&
    matchExpressions.every(({ key, operator, values = [] }) => {
      const value = Object.hasOwn(labels, key) ? labels[key] : undefined;
      switch (operator) {
        case "In":
          return value !== undefined && values.includes(value);
        case "NotIn":
          return value === undefined || !values.includes(value);
        case "Exists":
          return value !== undefined;
        case "DoesNotExist":
          return value === undefined;
      }
    })
  );
}

/** Kubernetes refuses a workload whose selector does not select its own pods, and an empty selector. */
export function checkSelector(selector: Selector, labels: Labels): readonly Problem[] {
  const { matchLabels = {}, matchExpressions = [] } = selector;
  const isEmpty = Object.keys(matchLabels).length + matchExpressions.length === 0;
  if (isEmpty) return [malformed("spec.selector", "must not be empty")];
  if (matchesSelector(selector, labels)) return [];
  return [malformed("spec.selector", "does not match the labels of spec.template.metadata.labels")];
}
