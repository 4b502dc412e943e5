import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { commandIn, engineRow, matrixOptions, renderMatrix } from "../../../scripts/setup/engine-matrix.mjs";
import { noCounts } from "../../../scripts/setup/test-runner.mjs";

describe("the command line of the engine matrix", () => {
  it("takes engines by name and endpoint, with the process whose namespaces they have, and one elsewhere", () => {
    assert.deepEqual(
      matrixOptions([
        "28.5=unix:///run/docker.sock@77",
        "a=ssh://root@10.0.0.7",
        "elsewhere:tcp",
        "--",
        "play",
      ]),
      {
        engines: [
          { name: "28.5", endpoint: "unix:///run/docker.sock", pid: 77 },
          { name: "a", endpoint: "ssh://root@10.0.0.7" },
          { name: "elsewhere:tcp", endpoint: "", transport: "tcp" },
        ],
        words: ["play"],
      },
    );
  });

  for (const [title, argv, message] of [
    ["no engine", ["--", "play"], /at least one engine/],
    ["an engine without a name", ["unix:///run/docker.sock"], /run\/docker.sock" is not NAME=ENDPOINT/],
    ["an endpoint without a scheme", ["a=/run/docker.sock"], /is not NAME=ENDPOINT/],
    ["two engines of one name", ["a=unix:///a", "a=unix:///b"], /two engines have the name "a"/],
  ] as const)
    it(`refuses ${title}`, () => assert.throws(() => matrixOptions([...argv]), message));

  it("enters the namespaces of the engine's process, in the directory of the checkout", () => {
    const engine = { name: "a", endpoint: "unix:///run/docker.sock", pid: 77 };
    const [program, ...args] = commandIn(engine, "/src/shim");
    assert.equal(program, "nsenter");
    assert.deepEqual(args.slice(-3), ["--", "env", "--chdir=/src/shim"]);
    assert.deepEqual(commandIn({ name: "a", endpoint: "unix:///a" }, "/src/shim"), []);
  });
});

describe("the table of the engine matrix", () => {
  const engine = { name: "a", endpoint: "unix:///a" };

  it("has a line for each engine, and names what failed", () => {
    const counts = {
      ...noCounts,
      passed: 3,
      failed: 1,
      skipped: 2,
      failedFiles: ["test/integration/a.test.ts"],
      skippedTests: ["test/integration/b.test.ts:3:1: needs systemd"],
    };
    const row = {
      ...engineRow(engine, {
        ServerVersion: "28.5.2",
        Driver: "overlay2",
        CgroupDriver: "systemd",
        CgroupVersion: "2",
      }),
    };
    assert.equal(
      renderMatrix([{ ...row, counts, minutes: 4.4 }])
        .split("\n")
        .slice(2)
        .join("\n"),
      "| a | 28.5.2 | overlay2 | 2, systemd | root | 3 | 1 | 2 | 4 |\n\nFailed:\n\n- a: test/integration/a.test.ts\n\nSkipped:\n\n- a: test/integration/b.test.ts:3:1: needs systemd\n",
    );
  });
});
