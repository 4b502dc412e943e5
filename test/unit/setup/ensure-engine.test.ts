import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { Attempt, Finding } from "../../../scripts/setup/engine.mjs";
import { adviceFor, setupObstacle } from "../../../scripts/setup/ensure-engine.mjs";
import { runningEnginePid } from "../../../scripts/setup/start-engine.mjs";

const usual = "unix:///var/run/docker.sock";
const attempt = (finding: Finding, endpoint = usual): Attempt => ({
  endpoint,
  finding,
  detail: "the detail",
});
const root = { allowSetup: true, userId: 0 };

describe("setupObstacle()", () => {
  test("names --no-setup when setting up is forbidden", () => {
    assert.match(setupObstacle(attempt("absent"), { ...root, allowSetup: false }) ?? "", /--no-setup/);
  });

  test("asks for root", { skip: process.platform !== "linux" }, () => {
    assert.match(setupObstacle(attempt("absent"), { ...root, userId: 1000 }) ?? "", /only root/);
  });

  for (const finding of ["denied", "foreign", "silent"] as const) {
    // A silent socket of a dockerd that is just starting is waited for; this machine's dockerd answers.
    test(
      `leaves a usual socket alone that is ${finding}`,
      { skip: finding === "silent" && runningEnginePid() !== undefined },
      () => {
        assert.match(setupObstacle(attempt(finding), root) ?? "", /docker\.sock/);
      },
    );
  }

  test("sets nothing up for an endpoint that the user named", () => {
    const named = attempt("refused", "tcp://127.0.0.1:1");
    assert.equal(setupObstacle(named, root), "no Docker Engine at tcp://127.0.0.1:1: the detail");
  });
});

describe("adviceFor()", () => {
  test("advises a user without rights on the socket to become root", () => {
    assert.match(adviceFor(attempt("denied")).join("\n"), /sudo npm start/);
  });

  test("does not offer a second engine where something has the usual socket", () => {
    assert.doesNotMatch(adviceFor(attempt("silent")).join("\n"), /install|start the engine/);
  });

  test("names a line to start or install an engine, and the flag for an engine elsewhere", () => {
    const advice = adviceFor(attempt("absent"));
    assert.match(advice[0] ?? "", /^(start|install)/);
    assert.match(advice.at(-1) ?? "", /--docker-endpoint/);
  });
});
