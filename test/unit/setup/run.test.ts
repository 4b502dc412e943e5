import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { run, withoutHosts } from "../../../scripts/setup/run.mjs";

describe("run()", () => {
  test("gives the exit code and both outputs", async () => {
    const script =
      "process.stdout.write('to out\\n'); process.stderr.write('to err\\n'); process.exitCode = 3;";
    const result = await run(process.execPath, ["-e", script], { timeoutMs: 30_000 });
    assert.equal(result.code, 3);
    assert.match(result.output, /to out/);
    assert.match(result.output, /to err/);
    assert.equal(result.timedOut, false);
  });

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
