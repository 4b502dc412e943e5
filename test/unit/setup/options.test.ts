import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { setupAllowed, shimArguments, startsServer } from "../../../scripts/setup/options.mjs";

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
  for (const [name, argv, env, expected] of cases)
    test(`is ${expected} when ${name}`, () => assert.equal(setupAllowed(argv, env), expected));
});

test("shimArguments() keeps everything but --no-setup", () =>
  assert.deepEqual(shimArguments(["--no-setup", "--v", "4", "--cni-bin-dir=/a"]), [
    "--v",
    "4",
    "--cni-bin-dir=/a",
  ]));

describe("startsServer()", () => {
  const cases: [string[], boolean][] = [
    [[], true],
    [["serve", "--v=1"], true],
    [["--container-runtime-endpoint=unix:///a"], true],
    [["play", "pod.yaml"], false],
    [["config"], false],
    [["--help"], false],
  ];
  for (const [argv, expected] of cases)
    test(`is ${expected} for "${argv.join(" ")}"`, () => assert.equal(startsServer(argv), expected));
});
