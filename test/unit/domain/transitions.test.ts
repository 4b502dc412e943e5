import assert from "node:assert/strict";
import { test } from "node:test";
import { transitions, type LifeState } from "../../../src/domain/transitions.js";

const names = ["CREATED", "STARTED", "STOPPED", "DELETED"];

function at(
  status: LifeState["state"]["status"],
  { started = status === "created" ? 0n : 1n, exitCode = 0 } = {},
): LifeState {
  return { state: { status, started, exitCode } };
}

const absent = undefined;
const created = at("created");
const neverRan = at("created", { exitCode: 127 });
const running = at("running");
const exited = at("exited");

test("transitions() has each change of a container that kubelets want to know", () => {
  const cases: readonly (readonly [string, LifeState | undefined, LifeState | undefined, string])[] = [
    ["a new container", absent, created, "CREATED"],
    ["one that is first seen running", absent, running, "CREATED STARTED"],
    ["one that is first seen after its end", absent, exited, "CREATED STARTED STOPPED"],
    ["one that is first seen after a failed start", absent, neverRan, "CREATED STOPPED"],
    ["a start", created, running, "STARTED"],
    ["a failed start", created, neverRan, "STOPPED"],
    ["a short life between two looks", created, exited, "STARTED STOPPED"],
    ["an end", running, exited, "STOPPED"],
    ["an end of the dead kind", running, at("dead"), "STOPPED"],
    ["a restart between two looks", running, at("running", { started: 2n }), "STOPPED STARTED"],
    ["another run between two looks", exited, at("exited", { started: 2n }), "STARTED STOPPED"],
    ["a start after an end", exited, at("running", { started: 2n }), "STARTED"],
    ["a restart that ended", running, at("exited", { started: 2n }), "STOPPED STARTED STOPPED"],
    ["a pause", running, at("paused"), ""],
    ["the end of a pause", at("paused"), running, ""],
    ["a removal that begins", exited, at("removing"), ""],
    ["a removal of one that never ran begins", created, at("removing", { started: 0n }), ""],
    ["a forced removal that begins", running, at("removing"), "STOPPED"],
    ["a removal", exited, absent, "DELETED"],
    ["a removal of one that never ran", created, absent, "DELETED"],
    ["a removal whose stop was not seen", running, absent, "STOPPED DELETED"],
    ["something that was never seen", absent, absent, ""],
    ["nothing new", running, running, ""],
  ];
  for (const [what, before, after, expected] of cases) {
    const made = transitions(before, after).map((type) => names[type]);
    assert.equal(made.join(" "), expected, what);
  }
});
