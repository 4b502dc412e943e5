import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { run } from "./command-line.js";

describe("record, replay and shadow", () => {
  test("record has defaults, and takes endpoints as paths or URLs", async () => {
    const { acted, exitCode } = await run("record --primary unix:///run/cri.sock --output /tmp/x");
    assert.equal(exitCode, 9);
    assert.deepEqual(acted["record"], {
      primary: "/run/cri.sock",
      listen: "/run/dockershim-record.sock",
      output: "/tmp/x",
      durationMs: undefined,
      limitBytes: 1024 * 1024 * 1024,
      withOutput: false,
    });
    const more = await run("record --primary /a --output x --for 10m --max-size 5 --with-output --listen /b");
    assert.deepEqual(more.acted["record"], {
      primary: "/a",
      listen: "/b",
      output: "x",
      durationMs: 600_000,
      limitBytes: 5 * 1024 * 1024,
      withOutput: true,
    });
  });

  test("replay and shadow tell what they were given", async () => {
    const { acted } = await run("replay --endpoint /a --fast -o json recording");
    assert.deepEqual(acted["replay"], {
      recording: "recording",
      endpoint: "/a",
      fast: true,
      anyway: false,
      format: "json",
    });
    const shadow = await run("shadow --primary /a --endpoint /b --report /c");
    assert.deepEqual(shadow.acted["shadow"], {
      primary: "/a",
      listen: "/run/dockershim-shadow.sock",
      endpoint: "/b",
      report: "/c",
    });
    assert.deepEqual((await run("shadow report /c")).acted, { showReport: "/c" });
  });

  for (const [line, message] of [
    ["record --output x", /--primary/],
    ["record --primary /a --output x y", /unexpected argument "y"/],
    ["record --primary a --output x", /flag "--primary": "a": must be an absolute path/],
    ["record --primary /a --output x --for 5", /flag "--for": "5": needs a unit/],
    ["record --primary /a --output x --max-size 0", /flag "--max-size": "0": must be 1 to/],
    ["replay --endpoint /a", /command "replay": needs a recording/],
    ["shadow --primary /a --endpoint /b", /command "shadow": needs flag "--report"/],
    ["shadow report", /command "shadow report": name one report/],
  ] as const) {
    test(`"${line}" is refused`, async () => {
      const { exitCode, err, acted } = await run(line);
      assert.equal(exitCode, 1);
      assert.match(err, message);
      assert.deepEqual(acted, {});
    });
  }

  test("the process beside a relay is not in the help", async () => {
    const { out } = await run("--help");
    assert.match(out, /shadow/);
    assert.ok(!out.includes("observe-calls"));
  });
});
