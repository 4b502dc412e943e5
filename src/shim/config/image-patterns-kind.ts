import { ShimError } from "../lib/errors.js";
import { imagePatternFault } from "../domain/image-patterns.js";
import type { ValueKind } from "./option.js";

/** Patterns of image names, separated by commas; none when empty. */
export const imagePatternsKind: ValueKind<readonly string[]> = {
  placeholder: "pattern,…",
  isList: true,
  parse(text) {
    if (text === "") return [];
    const patterns = [...new Set(text.split(",").map((part) => part.trim()))];
    for (const pattern of patterns) {
      const fault = imagePatternFault(pattern);
      if (fault !== undefined) throw new ShimError("invalid", `pattern ${JSON.stringify(pattern)} ${fault}`);
    }
    return patterns;
  },
  format: (value) => value,
};
