import { createHash } from "node:crypto";

/** Tells a state directory from others of the same engine: in labels, and in the name of a socket's directory. */
export function placeOf(stateDir: string): string {
  return createHash("sha256").update(stateDir).digest("hex").slice(0, 16);
}
