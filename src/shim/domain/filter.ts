/** List filters of the CRI. */
import type { Labels } from "./labels.js";

/** An empty filter matches all; else the id or a prefix of it, as Docker's id filter. */
export function matchesId(id: string, filter: string): boolean {
  return filter === "" || id.startsWith(filter);
}

/** Exact values; `labels` are Docker's, so annotations can be selected by their prefixed keys as in dockershim. */
export function matchesLabels(labels: Labels, selector: Labels): boolean {
  for (const key in selector) {
    if (labels[key] !== selector[key]) return false;
  }
  return true;
}
