import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { run, withoutHosts } from "../../../scripts/setup/run.mjs";

describe("run()", () => {
  test("ends a program at its deadline and reports that", async () => {
    const result = await run(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { timeoutMs: 10 });
    assert.deepEqual({ code: result.code, timedOut: result.timedOut }, { code: 128 + 15, timedOut: true });
  });
});

test("withoutHosts() hides hosts and addresses, and keeps the reason", () => {
  const text = [
    "npm error request to https://packages.example.org/yaml failed, reason: connect ECONNREFUSED 198.51.100.7:443",
    "npm error getaddrinfo ENOTFOUND packages.example.org",
  ].join("\n");
  const hidden = withoutHosts(text);
  assert.doesNotMatch(hidden, /example\.org|198\.51/);
  assert.match(hidden, /ECONNREFUSED/);
  assert.match(hidden, /ENOTFOUND/);
});
