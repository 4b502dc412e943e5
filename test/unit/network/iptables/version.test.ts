import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  parseIptablesVersion,
  restoreWaitFlags,
  waitFlags,
} from "../../../../src/network/iptables/detect.js";

describe("parseIptablesVersion()", () => {
  for (const [output, backend, parts] of [
    ["iptables v1.8.9 (nf_tables)\n", "nft", [1, 8, 9]],
    ["iptables v1.8.4 (legacy)\n", "legacy", [1, 8, 4]],
    ["iptables v1.6.1\n", "legacy", [1, 6, 1]],
    ["iptables v1.4\n", "legacy", [1, 4, 0]],
  ] as const) {
    test(`reads ${JSON.stringify(output)}`, () => {
      const version = parseIptablesVersion(output);
      assert.equal(version?.backend, backend);
      assert.deepEqual(version.parts, parts);
    });
  }

  test("says nothing about other text", () => {
    assert.equal(parseIptablesVersion("command not found"), undefined);
  });
});

describe("flags of waiting", () => {
  for (const [version, wait, restore] of [
    ["1.4.19", "", ""],
    ["1.4.20", "-w", ""],
    ["1.4.22", "-w 5", ""],
    ["1.6.1", "-w 5 -W 100000", ""],
    ["1.6.2", "-w 5 -W 100000", "-w 5 -W 100000"],
    ["1.8.7", "-w 5 -W 100000", "-w 5 -W 100000"],
    ["1.8.8", "-w 5", "-w 5"],
    ["1.10.0", "-w 5", "-w 5"],
  ] as const) {
    test(`of ${version} are "${wait}", for restore "${restore}"`, () => {
      const parsed = parseIptablesVersion(`iptables v${version}`)!;
      assert.equal(waitFlags(parsed).join(" "), wait);
      assert.equal(restoreWaitFlags(parsed).join(" "), restore);
    });
  }
});
