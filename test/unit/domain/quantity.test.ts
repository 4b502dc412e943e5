import assert from "node:assert/strict";
import { test } from "node:test";
import { parseQuantity } from "../../../src/domain/quantity.js";

const cases: readonly (readonly [string, 1 | 1000, bigint | undefined])[] = [
  ["1", 1000, 1000n],
  ["250m", 1000, 250n],
  ["0.5", 1000, 500n],
  [".5", 1000, 500n],
  ["1.", 1000, 1000n],
  ["0.1m", 1000, 1n],
  ["100n", 1000, 1n],
  ["0", 1000, 0n],
  ["128Mi", 1, 134_217_728n],
  ["128M", 1, 128_000_000n],
  ["1.5Gi", 1, 1_610_612_736n],
  ["1e3", 1, 1000n],
  ["1E3", 1, 1000n],
  ["1E", 1, 10n ** 18n],
  ["12e-1", 1, 2n],
  ["+5", 1, 5n],
  ["-5", 1, -5n],
  ["100Ei", 1, 2n ** 63n - 1n],
  ["1500m", 1, 2n],
  ["", 1, undefined],
  ["5 Mi", 1, undefined],
  ["5mi", 1, undefined],
  ["Mi", 1, undefined],
  ["1e", 1, undefined],
  ["0x10", 1, undefined],
  ["1.2.3", 1, undefined],
  ["1e9999", 1, undefined],
];

for (const [text, perUnit, expected] of cases) {
  test(`parseQuantity() reads "${text}" per ${String(perUnit)} as ${String(expected)}`, () => {
    assert.equal(parseQuantity(text, perUnit), expected);
  });
}
