import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { sourceOf } from "../../../src/shim/logs/log-source.js";

describe("sourceOf()", () => {
  for (const [logDriver, value, expected] of [
    ["json-file", undefined, "file"],
    ["local", undefined, "api"],
    ["none", undefined, "attach"],
    ["gelf", undefined, "api"],
    ["gelf", "false", "api"],
    ["gelf", "0", "api"],
    // What Go takes for true; the engine has refused all other texts.
    ...["1", "t", "T", "true", "TRUE", "True"].map((text) => ["gelf", text, "attach"] as const),
  ] as const) {
    test(`is ${expected} for ${logDriver} with cache-disabled ${value ?? "not given"}`, () => {
      const logOptions: Record<string, string> = value === undefined ? {} : { "cache-disabled": value };
      assert.equal(sourceOf({ logDriver, logOptions }), expected);
    });
  }
});
