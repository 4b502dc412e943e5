import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { ValidRunPodSandbox } from "../../../src/domain/requests.js";
import { runRequest } from "../../fakes/requests.js";
import { shimOfEachTest, TestShim } from "../../fakes/services.js";
import { until } from "../../fakes/turns.js";

const shim = shimOfEachTest();

const content = "nameserver 10.0.0.1\n";
const engines = "nameserver 192.0.2.1\n";

function withDns(): ValidRunPodSandbox {
  return runRequest({ dns_config: { servers: ["10.0.0.1"], searches: [], options: [] } });
}

/** As an engine does that writes the file at a start. */
function overwrite(shim: TestShim, id: string): void {
  shim.world.host.resolvConfs.set(id, engines);
}

function writes(shim: TestShim): number {
  return shim.world.journal.names("host.writeResolvConf").length;
}

const isOurs = (shim: TestShim, id: string): boolean => shim.world.host.resolvConfs.get(id) === content;

describe("resolv.conf of a sandbox", () => {
  test("is written again when another program starts its container", async () => {
    const id = await shim.runSandbox(withDns());
    assert.equal(writes(shim), 1);
    overwrite(shim, id);
    shim.engine.containers.restart(id);
    await until("it is the pod's again", () => isOurs(shim, id));
    assert.match(shim.log.lines.at(-1)?.message ?? "", /^rewrote resolv.conf of a sandbox/);
  });

  test("is written again by the next process after a start that no process saw", async () => {
    await using first = await TestShim.start();
    const id = await first.runSandbox(withDns());
    first.engine.events$.policy = () => [];
    overwrite(first, id);
    first.engine.containers.restart(id);
    await using second = await first.restart();
    await until("it is the pod's again", () => isOurs(second, id));
  });

  test("is written again after the engine was away, while its container ran on", async () => {
    const id = await shim.runSandbox(withDns());
    overwrite(shim, id);
    shim.engine.events$.breakAll(new Error("the engine was started again"));
    await until("it is the pod's again", () => isOurs(shim, id));
  });

  test("is looked at once for each start, and not by the run that makes the sandbox", async () => {
    const id = await shim.runSandbox(withDns());
    for (let count = 0; count < 5; count += 1) await shim.sync.refresh(id);
    assert.equal(writes(shim), 1);
  });

  test("is the engine's own where the pod asked for nothing, and left alone once the pod is stopped", async () => {
    const without = await shim.runSandbox(runRequest({ dns_config: null }));
    const metadata = { name: "other", namespace: "default", uid: "other", attempt: 0 };
    const stopped = await shim.runSandbox({ ...withDns(), config: { ...withDns().config, metadata } });
    await shim.stopSandbox(stopped);
    const before = writes(shim);
    for (const id of [without, stopped]) {
      shim.engine.containers.start(id);
      await shim.sync.refresh(id);
      assert.equal(shim.services.state.model.snapshot(id)?.state.running, true);
    }
    assert.equal(writes(shim), before);
  });
});
