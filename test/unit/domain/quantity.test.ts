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
  ...["", "5 Mi", "5mi", "Mi", "1e", "0x10", "1.2.3", "1e9999"].map((text) => [text, 1, undefined] as const),
];

test("parseQuantity() reads Kubernetes' quantities, rounded up, and refuses other text", () => {
  for (const [text, perUnit, expected] of cases) assert.equal(parseQuantity(text, perUnit), expected, text);
});
