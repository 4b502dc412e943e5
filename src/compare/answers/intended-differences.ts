/**
 * The answers in which this program differs from others on purpose. docs/understand/differences.md has a section that
 * `scripts/generate-differences-doc.mjs` makes of it.
 */
import type { IntendedDifference } from "./intended-difference.js";
import { intendedOfPods } from "./intended-of-pods.js";
import { intendedOfServers } from "./intended-of-servers.js";

export const intendedDifferences: readonly IntendedDifference[] = [...intendedOfServers, ...intendedOfPods];
