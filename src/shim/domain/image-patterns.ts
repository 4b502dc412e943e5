/**
 * Patterns of image names, in CRI-O's three forms: a name, a beginning (`registry.example/*`), a part (`*web*`). A name is
 * compared as Docker understands it, so that `busybox` is `docker.io/library/busybox:latest`.
 */
import { normalizeReference, parseReference } from "./image-reference.js";

/** Why no image could ever match `pattern`; undefined when one can. */
export function imagePatternFault(pattern: string): string | undefined {
  const text = pattern.endsWith("*") ? pattern.slice(pattern.startsWith("*") ? 1 : 0, -1) : pattern;
  if (text.includes("*")) return "may have a * at its end, or one at each end";
  return text === pattern && parseReference(text) === undefined ? "is not an image reference" : undefined;
}

/** Whether an image with this tag or digest reference is named by one of `patterns`. */
export function imageNameMatcher(patterns: readonly string[]): (name: string) => boolean {
  const names = new Set<string>();
  const beginnings: string[] = [];
  const parts: string[] = [];
  for (const pattern of patterns) {
    if (!pattern.endsWith("*")) names.add(normalizeReference(pattern));
    else if (pattern.startsWith("*")) parts.push(pattern.slice(1, -1));
    else beginnings.push(pattern.slice(0, -1));
  }
  if (patterns.length === 0) return () => false;
  return (name) => {
    const full = normalizeReference(name);
    const matches = (text: string): boolean =>
      beginnings.some((beginning) => text.startsWith(beginning)) || parts.some((part) => text.includes(part));
    return names.has(full) || matches(name) || matches(full);
  };
}
