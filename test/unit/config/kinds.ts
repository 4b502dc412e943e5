/** Table tests of value kinds. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { isKind } from "../../../src/lib/errors.js";
import type { ValueKind } from "../../../src/shim/config/option.js";

export interface KindCases<T> {
  /** Text, value, and the normal text where that differs. */
  readonly good: readonly (readonly [string, T, unknown?])[];
  /** Text and reason. */
  readonly bad: readonly (readonly [string, RegExp])[];
}

export function testKind<T>(name: string, kind: ValueKind<T>, { good, bad }: KindCases<T>): void {
  describe(name, () => {
    for (const [text, value, normal = text] of good) {
      test(`reads ${JSON.stringify(text)}`, () => {
        assert.deepEqual(kind.parse(text), value);
        assert.deepEqual(kind.format(value), normal);
      });
    }
    for (const [text, reason] of bad) {
      test(`refuses ${JSON.stringify(text.slice(0, 40))}`, () => {
        assert.throws(
          () => kind.parse(text),
          (error) => isKind(error, "invalid") && reason.test(error.message),
        );
      });
    }
  });
}
