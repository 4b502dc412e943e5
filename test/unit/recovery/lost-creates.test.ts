/** Creates whose answer is lost, and abandoned creates. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ShimError } from "../../../src/lib/errors.js";
import { rejectsWith } from "../../support/refusals.js";
import { shimOfEachTest, type TestShim } from "../../fakes/services.js";
import { turns, until } from "../../fakes/turns.js";

const shim = shimOfEachTest();

const name = "k8s_main_web_default_uid-1_0";

describe("createContainer() whose answer from the engine is lost", () => {
  test("finds what it made, and makes nothing twice", async () => {
    const sandbox = await shim.runSandbox();
    shim.engine.loseNextAnswer("createContainer");
    const id = await shim.createContainer(sandbox);
    assert.deepEqual(shim.engine.containers.ids, [sandbox, id]);
    assert.equal(shim.engine.containers.get(id).name, name);
    assert.deepEqual(await shim.listedContainers(), { [id]: 0 });
  });

  test("leaves nothing when it is lost twice", async () => {
    const sandbox = await shim.runSandbox();
    let lost = 0;
    const create = shim.engine.createContainer.bind(shim.engine);
    shim.engine.createContainer = async (...args) => {
      shim.engine.loseNextAnswer("createContainer");
      lost += 1;
      return create(...args);
    };
    await rejectsWith(shim.createContainer(sandbox), "unavailable", /connection closed/);
    assert.ok(lost > 1);
    await until("it is removed", () => shim.engine.containers.ids.length === 1);
    assert.deepEqual(shim.engine.containers.ids, [sandbox]);
    await until("it is not listed", () => [...shim.services.state.model.containers()].length === 0);
  });

  test("removes what the engine made after the caller had left", async () => {
    const sandbox = await shim.runSandbox();
    const goOn = await leaveDuringCreate(shim, sandbox);
    goOn();
    await until("it is made", () => shim.engine.containers.find(name) !== undefined);
    await until("it is removed", () => shim.engine.containers.find(name) === undefined);
    await until("it is not listed", () => [...shim.services.state.model.containers()].length === 0);
  });

  test("a repeated call takes over what the engine makes late", async () => {
    const sandbox = await shim.runSandbox();
    const goOn = await leaveDuringCreate(shim, sandbox);
    const again = shim.createContainer(sandbox);
    goOn();
    const id = await again;
    await turns(20);
    assert.deepEqual(shim.engine.containers.ids, [sandbox, id]);
  });

  test("never removes a container of that name that another program created", async () => {
    const sandbox = await shim.runSandbox();
    const create = shim.engine.createContainer.bind(shim.engine);
    shim.engine.createContainer = async (wanted, body, signal) => {
      await create(wanted, { ...body, Labels: {} }, signal);
      throw new ShimError("timeout", "the engine does not answer");
    };
    await rejectsWith(shim.createContainer(sandbox), "timeout");
    await turns(20);
    assert.ok(shim.engine.containers.find(name));
  });

  test("never removes one of that name that runs", async () => {
    const sandbox = await shim.runSandbox();
    const running = await shim.runContainer(sandbox);
    await leaveDuringCreate(shim, sandbox);
    await turns(20);
    assert.equal(shim.engine.containers.get(running).state.running, true);
  });
});

/** The engine hangs at the create, and the caller leaves; the engine goes on when the result is called. */
async function leaveDuringCreate(shim: TestShim, sandbox: string): Promise<() => void> {
  const call = shim.call();
  const held = shim.holdRequests("createContainer");
  const creating = shim.createContainer(sandbox, {}, call);
  await held.begun();
  call.abort(new ShimError("timeout", "the deadline of the caller has passed"));
  await rejectsWith(creating, "timeout");
  return held.release;
}
