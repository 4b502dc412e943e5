import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  flagValue,
  namedEndpoint,
  setupAllowed,
  shimArguments,
  startsServer,
} from "../../../scripts/setup/options.mjs";

describe("setupAllowed()", () => {
  const cases: [string, string[], NodeJS.ProcessEnv, boolean][] = [
    ["nothing is said", [], {}, true],
    ["--no-setup is among the flags", ["--v=4", "--no-setup"], {}, false],
    ["DOCKERSHIM_NO_SETUP is 1", [], { DOCKERSHIM_NO_SETUP: "1" }, false],
    ["DOCKERSHIM_NO_SETUP is 0", [], { DOCKERSHIM_NO_SETUP: "0" }, true],
    ["DOCKERSHIM_NO_SETUP is empty", [], { DOCKERSHIM_NO_SETUP: "" }, true],
    ["npm took --no-setup for its own", [], { npm_config_setup: "" }, false],
    ["npm took --setup for its own", [], { npm_config_setup: "true" }, true],
  ];
  for (const [name, argv, env, expected] of cases) {
    test(`is ${expected} when ${name}`, () => {
      assert.equal(setupAllowed(argv, env), expected);
    });
  }
});

test("shimArguments() keeps everything but --no-setup", () => {
  assert.deepEqual(shimArguments(["--no-setup", "--v", "4", "--cni-bin-dir=/a"]), [
    "--v",
    "4",
    "--cni-bin-dir=/a",
  ]);
});

describe("namedEndpoint()", () => {
  const cases: [string, string[], NodeJS.ProcessEnv, string | undefined][] = [
    ["nothing is said", [], {}, undefined],
    ["DOCKER_HOST is empty", [], { DOCKER_HOST: "" }, undefined],
    ["DOCKER_HOST is a socket of this host", [], { DOCKER_HOST: "unix:///x.sock" }, undefined],
    ["DOCKER_HOST is an engine elsewhere", [], { DOCKER_HOST: "ssh://root@host" }, "ssh://root@host"],
    ["the flag is given, too", ["--docker-endpoint=unix:///a"], { DOCKER_HOST: "tcp://host:1" }, "unix:///a"],
  ];
  for (const [name, argv, env, expected] of cases) {
    test(`is ${expected ?? "undefined"} when ${name}`, () => {
      assert.equal(namedEndpoint(argv, env), expected);
    });
  }
});

describe("flagValue()", () => {
  test("reads both ways of writing a flag, the last one counts", () => {
    const argv = ["--docker-endpoint", "unix:///a", "--docker-endpoint=unix:///b=c"];
    assert.equal(flagValue(argv, "--docker-endpoint"), "unix:///b=c");
    assert.equal(flagValue(argv.slice(0, 2), "--docker-endpoint"), "unix:///a");
  });

  test("does not take a longer flag for this one", () => {
    assert.equal(flagValue(["--config-file=x"], "--config"), undefined);
  });
});

describe("startsServer()", () => {
  const cases: [string[], boolean][] = [
    [[], true],
    [["serve", "--v=1"], true],
    [["--container-runtime-endpoint=unix:///a"], true],
    [["play", "pod.yaml"], false],
    [["config"], false],
    [["--help"], false],
  ];
  for (const [argv, expected] of cases) {
    test(`is ${expected} for "${argv.join(" ")}"`, () => {
      assert.equal(startsServer(argv), expected);
    });
  }
});
