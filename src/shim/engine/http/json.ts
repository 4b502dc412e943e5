/** The engine's answers as JSON; lib/json/json-readers.ts reads their fields. */
import { ShimError } from "../../../lib/errors.js";
import { lostAnswer } from "./errors.js";

/** `text` as JSON, or `unknown` naming the action; the text itself is not quoted, it may hold secrets. */
export function parseJson(text: string, action: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw notJson(action, error);
  }
}

export function notJson(action: string, cause?: unknown): ShimError {
  return new ShimError("unknown", `${action}: the engine's answer is not JSON`, lostAnswer, { cause });
}
