import assert from "node:assert/strict";
import { test } from "node:test";
import { renderUsage } from "../../../../src/play/pod-commands/pod-usage.js";

const mebibyte = 1024 ** 2;
const usage = (name: string, milliCores: number | undefined, memory: number) => ({
  ...{ name, milliCores, memoryBytes: memory * mebibyte },
});
const pods = [
  { namespace: "n", name: "a", containers: [usage("x", 1, 5), usage("y", undefined, 1)] },
  { namespace: "n", name: "b", containers: [usage("z", 9, 2)] },
];

for (const [how, expected] of [
  [{ containers: false }, ["n a 1m 6Mi", "n b 9m 2Mi"]],
  [{ containers: false, sortBy: "cpu" }, ["n b 9m 2Mi", "n a 1m 6Mi"]],
  [{ containers: true, sortBy: "memory" }, ["n a x 1m 5Mi", "n b z 9m 2Mi", "n a y - 1Mi"]],
] as const)
  test(`renderUsage() with ${JSON.stringify(how)}`, () => {
    const [, ...lines] = renderUsage(pods, how).trimEnd().split("\n");
    const found = lines.map((line) => line.replaceAll(/ +/g, " "));
    assert.deepEqual(found, expected);
  });
