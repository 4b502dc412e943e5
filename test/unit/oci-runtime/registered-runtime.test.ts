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
import { recordingLog } from "../../fakes/recording-log.js";

const never = new AbortController().signal;
const runc = { name: "runc", kind: "runc", recursiveReadOnly: false } as const;

function registered(changes: Partial<NodeFacts> = {}): NodeFacts {
  return nodeFacts({ runtimes: [runc, { ...runc, name: ociRuntimeName }], ...changes });
}

describe("RegisteredRuntime", () => {
  let trials = 0;
  let now = 0;
  let startRefused: RegisteredRuntimeDeps["startRefused"];
  let runtime: RegisteredRuntime;
  beforeEach(() => {
    trials = 0;
    now = 0;
    startRefused = (words) => Promise.reject(new Error(`OCI runtime create failed: dockershim: ${words}`));
    runtime = new RegisteredRuntime({
      listen: () => Promise.resolve(),
      startRefused: (words) => {
        trials += 1;
        return startRefused(words);
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
    startRefused = () => Promise.reject(new Error("exec: no such file"));
    assert.match(await problemOf(registered()), /"dockershim-runc" does not work: exec: no such file$/);
    now = 59_999;
    await problemOf(registered());
    assert.equal(trials, 1);
    now = 60_000;
    startRefused = (words) => Promise.reject(new Error(words));
    assert.equal(await runtime.find(registered(), never), "works");
    assert.equal(trials, 2);
  });

  test("does not work when a container starts without a question", async () => {
    startRefused = () => Promise.resolve();
    assert.match(await problemOf(registered()), /it runs containers without asking this program$/);
  });
});
