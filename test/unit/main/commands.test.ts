/** What each command takes, as the options of its action, and what it refuses. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";
import { parse } from "yaml";
import { actionCode, run } from "./command-line.js";

/** Lines, and what their actions are given: in `pod` the requests of its verbs, in `refused` a part of the error. */
const { taken, pod, refused } = parse(readFileSync("test/golden/command-lines.yaml", "utf8"), {
  merge: true,
}) as Record<"taken" | "pod", Readonly<Record<string, unknown>>> & {
  readonly refused: Readonly<Record<string, string>>;
};

/** Without what is undefined. */
const given = (options: unknown): unknown => JSON.parse(JSON.stringify(options));

describe("the command line takes", () => {
  for (const [line, expected] of Object.entries(taken)) {
    test(line, async () => {
      const { exitCode, err, acted } = await run(line);
      assert.deepEqual([exitCode, err, given(acted)], [actionCode, "", expected]);
    });
  }
  for (const [line, request] of Object.entries(pod)) {
    test(`pod ${line}`, async () => {
      const [verb, ...rest] = line.split(" ");
      const { err, acted } = await run(["pod", verb ?? "", "--endpoint=/run/a.sock", ...rest]);
      assert.deepEqual([err, given(acted)], ["", { runPod: { request, endpoint: "/run/a.sock" } }]);
    });
  }
  for (const [line, action] of [
    ["config", "runConfig"],
    ["serve", "runServe"],
  ] as const) {
    test(`the flags of the server with ${line}`, async () => {
      const { acted } = await run(`--state-dir=/a ${line} --v=4`);
      const options = acted[action] as { resolved?: object; check?: boolean };
      const { config } = (options.resolved ?? options) as { config: { stateDir: string; logLevel: string } };
      assert.deepEqual([config.stateDir, config.logLevel], ["/a", "debug"]);
      assert.equal(options.check, line.includes("--check") ? true : undefined);
    });
  }

  test("the parts and the flags of doctor, and all parts without one", async () => {
    const flags = [{ name: "state-dir", text: "/a" }];
    const rest = { flags, programName: "dockershim" };
    for (const [line, options] of [
      ["doctor --state-dir=/a", { parts: [], check: false, json: false, ...rest }],
      [
        "--state-dir=/a doctor network node --check --json",
        { parts: ["network", "node"], check: true, json: true, ...rest },
      ],
    ] as const)
      assert.deepEqual((await run(line)).acted, { runDoctor: options });
    assert.equal((await run("doctor --version")).out, "dockershim 1.2.3 (abc)\n");
  });

  test("what why is asked for, in which form, with the flags of the server", async () => {
    const flags = [{ name: "state-dir", text: "/a" }];
    for (const [line, form] of [
      ["why default/web --state-dir=/a", "text"],
      ["--state-dir=/a why --json default/web", "json"],
      ["why --state-dir=/a --svg default/web", "svg"],
    ] as const) {
      const options = { wanted: "default/web", form, flags, programName: "dockershim" };
      assert.deepEqual((await run(line)).acted, { runWhy: options });
    }
  });

  test("the socket of play and pod from the environment, and the flag before it", async () => {
    const environment = { DOCKERSHIM_CONTAINER_RUNTIME_ENDPOINT: "unix:///env.sock" };
    for (const [line, endpoint] of [
      ["play a.yaml", "/env.sock"],
      ["play a.yaml --endpoint /flag.sock", "/flag.sock"],
      ["pod ps", "/env.sock"],
    ] as const) {
      const { acted } = await run(line, { environment });
      const { runPlay, runPod } = acted as Record<string, { endpoint: string }>;
      assert.equal((runPlay ?? runPod)?.endpoint, endpoint);
    }
  });

  test("the engine of migrate check by its flag alone: the runtime's comes before DOCKER_HOST", async () => {
    const environment = { DOCKER_HOST: "unix:///run/a.sock" };
    for (const [line, path] of [
      ["migrate check", undefined],
      ["migrate check --docker-endpoint unix:///b.sock", "/b.sock"],
      ["migrate check --root /tmp", undefined],
    ] as const) {
      const { endpoint } = (await run(line, { environment })).acted.runMigrateCheck ?? {};
      assert.deepEqual(endpoint, path === undefined ? undefined : { kind: "unix", path });
    }
  });
});

describe("the command line refuses with one line", () => {
  for (const [line, reason] of Object.entries(refused)) {
    test(line, async () => {
      const { exitCode, out, err, acted } = await run(line);
      assert.deepEqual({ exitCode, out, acted }, { exitCode: 1, out: "", acted: {} });
      assert.ok(err.startsWith("dockershim: ") && err.includes(reason), err);
      assert.equal(err.indexOf("\n"), err.length - 1);
    });
  }
});

describe("the help", () => {
  const codesOf = async (command: string): Promise<readonly string[]> => {
    const { out, exitCode } = await run(`${command} --help`);
    assert.equal(exitCode, 0);
    const lines = out.slice(out.indexOf("Exit codes:\n")).split("\n");
    return lines.flatMap((line) => /^ {2}(\d) {2}\w/.exec(line)?.[1] ?? []);
  };
  const withFindings = "migrate check|migrate plan|migrate rehearse|diff|replay|shadow|checkpoint verify";
  for (const [commands, codes] of [
    [`${withFindings}|checkpoint repair`, ["0", "1", "2"]],
    ["record|checkpoint ls|checkpoint convert", ["0", "1"]],
  ] as const)
    for (const command of commands.split("|"))
      test(`of "${command}" lists its exit codes`, async () => {
        assert.deepEqual(await codesOf(command), codes);
      });

  test("of migrate plan names no target that has no plan", async () => {
    const { out } = await run("migrate plan --help");
    assert.match(out, /"dockershim-in-tree",\s+"cri-dockerd"\)/);
    assert.doesNotMatch(out, /containerd/);
  });

  test("does not list the processes beside a relay", async () => {
    const { out } = await run("--help");
    assert.match(out, /shadow/);
    assert.doesNotMatch(out, /observe-calls|keep-link|\bdial\b/);
  });
});

test("the processes beside a relay handle signals before their modules are loaded", async () => {
  for (const line of ["keep-link {}", "observe-calls {}"])
    assert.equal((await run(line)).handlesSignals, true, line);
});
