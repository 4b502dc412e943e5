import assert from "node:assert/strict";
import { beforeEach, describe, test } from "node:test";
import { ociRuntimeName } from "../../../src/domain/oci-changes.js";
import type { NodeFacts } from "../../../src/domain/node-facts.js";
import {
  notRegistered,
  RegisteredRuntime,
  type RegisteredRuntimeDeps,
} from "../../../src/shim/oci-runtime/registered-runtime.js";
import { nodeFacts } from "../../fakes/node-facts.js";
import { until } from "../../fakes/turns.js";
import { recordingLog } from "../../fakes/recording-log.js";

const never = new AbortController().signal;
const runc = { name: "runc", kind: "runc", recursiveReadOnly: false } as const;

function registered(changes: Partial<NodeFacts> = {}): NodeFacts {
  return nodeFacts({ runtimes: [runc, { ...runc, name: ociRuntimeName }], ...changes });
}

describe("RegisteredRuntime", () => {
  let trials = 0;
  let now = 0;
  let startTrial: RegisteredRuntimeDeps["startTrial"];
  let runtime: RegisteredRuntime;
  beforeEach(() => {
    trials = 0;
    now = 0;
    startTrial = (program) =>
      Promise.reject(new Error(`OCI runtime create failed: exec: "${program}": executable file not found`));
    runtime = new RegisteredRuntime({
      listen: () => Promise.resolve(),
      startTrial: (program) => {
        trials += 1;
        return startTrial(program);
      },
      log: recordingLog(),
      now: () => now,
    });
  });

  const problemOf = async (facts: NodeFacts): Promise<string> => {
    const found = await runtime.find(facts, never);
    assert.ok(found !== "works");
    return found.problem;
  };

  test("starts no container where the engine does not have it", async () => {
    assert.equal(await problemOf(nodeFacts()), notRegistered);
    assert.deepEqual(runtime.state(nodeFacts()), { problem: notRegistered });
    assert.equal(trials, 0);
  });

  test("is found out once per engine", async () => {
    assert.equal(runtime.state(registered()), "checking");
    assert.equal(await runtime.find(registered(), never), "works");
    assert.equal(runtime.state(registered()), "works");
    assert.equal(trials, 1);
    assert.equal(await runtime.find(registered({ engineId: "OTHER" }), never), "works");
    assert.equal(trials, 2);
  });

  test("is found out again after the engine was without it", async () => {
    await runtime.find(registered(), never);
    assert.equal(await problemOf(nodeFacts()), notRegistered);
    await runtime.find(registered(), never);
    assert.equal(trials, 2);
  });

  test("does not work when the container fails otherwise, and is tried again after a minute", async () => {
    startTrial = () => Promise.reject(new Error("exec: no such file"));
    assert.match(await problemOf(registered()), /"dockershim-runc" does not work: exec: no such file$/);
    now = 59_999;
    await problemOf(registered());
    assert.equal(trials, 1);
    now = 60_000;
    startTrial = (program) => Promise.reject(new Error(program));
    assert.equal(await runtime.find(registered(), never), "works");
    assert.equal(trials, 2);
  });

  test("does not work when a container starts without a question", async () => {
    startTrial = () => Promise.resolve();
    assert.match(await problemOf(registered()), /it runs containers without asking this program$/);
  });

  test("a trial that hangs does not hold calls, and its result counts once it has come", async () => {
    let end: (error: Error) => void = () => undefined;
    let program = "";
    const hanging = new RegisteredRuntime({
      listen: () => Promise.resolve(),
      startTrial: (named) => {
        program = named;
        return new Promise((_, reject) => (end = reject));
      },
      log: recordingLog(),
      now: () => now,
      waitMs: 1,
    });
    const found = await hanging.find(registered(), never);
    assert.match(JSON.stringify(found), /does not work: whether it does is still being found out/);
    assert.equal(hanging.state(registered()), "checking");
    end(new Error(program));
    await until("the result", () => hanging.state(registered()) === "works");
    assert.equal(await hanging.find(registered(), never), "works");
  });
});
