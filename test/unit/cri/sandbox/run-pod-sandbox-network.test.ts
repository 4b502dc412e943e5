/** RunPodSandbox and StopPodSandbox on CNI plugins that record their calls: which call undoes a network, and how often. */
import assert from "node:assert/strict";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, test } from "node:test";
import { createCniParts, createPluginOn } from "../../../../src/network/cni/create-cni-plugin.js";
import { HostPortClaims } from "../../../../src/network/hostport/host-port-claims.js";
import { LockedNetworkPlugin } from "../../../../src/network/locked-plugin.js";
import { ShimError } from "../../../../src/lib/errors.js";
import type { ValidRunPodSandbox } from "../../../../src/domain/requests.js";
import { rejectsWith } from "../../../support/refusals.js";
import { runRequest } from "../../../fakes/requests.js";
import { bindHandlers, TestShim, type BoundHandlers } from "../../../fakes/services.js";
import { until } from "../../../fakes/turns.js";
import { FakeNatTable, FakePlugins, namespacesSeen, oneAddress } from "../../network/cni/fake-plugins.js";
import { FixedSource } from "../../network/cni/fixed-source.js";

const never = new AbortController().signal;

let shim: TestShim;
let fake: FakePlugins;
let source: FixedSource;
let rpcs: BoundHandlers;

beforeEach(async () => {
  shim = await TestShim.start();
  fake = await FakePlugins.create("one", "two", "loopback");
  source = new FixedSource();
  source.use({}, { type: "one", capabilities: { portMappings: true } }, { type: "two" });
  rpcs = await openRpcs();
});
afterEach(async () => {
  await fake[Symbol.asyncDispose]();
  await shim[Symbol.asyncDispose]();
});

/** As a run of the program has them: network plugin and claims know nothing of the run before. */
async function openRpcs(): Promise<BoundHandlers> {
  const options = {
    reason: "test",
    binDirs: [fake.binDir],
    cacheDir: join(fake.directory, "cache"),
    legacyResultDirs: [],
    natTables: async () => [new FakeNatTable()],
    namespaces: namespacesSeen((path) => ({
      identity: `namespace of ${path.split("/")[2] ?? ""}`,
      own: false,
    })),
    log: shim.log,
  };
  const cni = createPluginOn(source, "cni", options, createCniParts(options));
  const network = new LockedNetworkPlugin(cni, { claims: new HostPortClaims() });
  await network.start(never);
  return bindHandlers({ ...shim.services, network });
}

const run = async (request: ValidRunPodSandbox = runRequest()): Promise<string> =>
  (await rpcs.RunPodSandbox(request, shim.call())).pod_sandbox_id ?? "";
const stop = (id: string): Promise<unknown> => rpcs.StopPodSandbox({ pod_sandbox_id: id }, shim.call());
const chain = async (): Promise<readonly string[]> =>
  (await fake.order()).filter((call) => !call.endsWith("loopback"));
async function untilSecondAdd(): Promise<void> {
  let calls: readonly string[] = [];
  await until("the second ADD runs", () => {
    void chain().then((found) => (calls = found));
    return calls.length === 2;
  });
}
const add = ["ADD one", "ADD two"];
const del = ["DEL two", "DEL one"];
/** A pod that wants the host port 8080. */
const withPort = (name: string, attempt = 0, uid = name): ValidRunPodSandbox =>
  runRequest({
    metadata: { name, namespace: "default", uid, attempt },
    port_mappings: [{ protocol: 0, container_port: 80, host_port: 8080, host_ip: "" }],
  });

describe("a RunPodSandbox that fails", () => {
  test("in ADD runs one chain of DELs, with configuration and result of the ADD, whatever is in use then", async () => {
    const gate = join(fake.directory, "gate");
    await fake.behave("two", "ADD", `while [ ! -e '${gate}' ]; do sleep 0.01; done; exit 1`);
    const running = run();
    running.catch(() => undefined);
    await untilSecondAdd();
    source.use({ name: "other" }, { type: "one" });
    await writeFile(gate, "");
    await rejectsWith(running, "unknown", /CNI plugin "two" ADD/);
    assert.deepEqual(await chain(), [...add, ...del]);
    for (const { stdin } of await fake.calls("DEL"))
      assert.deepEqual([stdin["name"], stdin["prevResult"]], ["net", oneAddress]);
    assert.deepEqual(shim.engine.containers.ids, []);
  });

  test("before ADD runs no DEL: without a network", async () => {
    source.now = { problem: "no networks found in /conf" };
    await rejectsWith(run(), "unavailable", /no networks found/);
    assert.deepEqual(await fake.order(), []);
    assert.deepEqual(shim.engine.containers.ids, []);
  });

  test("before ADD runs no DEL: with a host port that another pod has, and goes on having", async () => {
    const first = await run(withPort("first"));
    await rejectsWith(run(withPort("second")), "conflict", /taken by pod "first_default"/);
    await rejectsWith(run(withPort("third")), "conflict", /taken by pod "first_default"/);
    assert.deepEqual(await chain(), add);
    assert.deepEqual(shim.engine.containers.ids, [first]);
    await stop(first);
    await run(withPort("second"));
    assert.deepEqual(await chain(), [...add, ...del, ...add]);
  });
});

describe("a sandbox that a failed RunPodSandbox left", () => {
  test("since DEL failed, too, is released by StopPodSandbox until that succeeded once, over a restart", async () => {
    await fake.behave("two", "ADD", "exit 1");
    await fake.behave("one", "DEL", "exit 1");
    await rejectsWith(run(), "unknown", /"two" ADD/);
    assert.deepEqual(await chain(), [...add, ...del]);
    const [id = ""] = shim.engine.containers.ids;
    assert.deepEqual(await shim.listedSandboxes(), { [id]: 1 });
    await rejectsWith(stop(id), "unknown", /"one" DEL/);
    source.use({ name: "other" }, { type: "two" });
    rpcs = await openRpcs();
    await rejectsWith(stop(id), "unknown", /"one" DEL/);
    await fake.behaveAgain("one", "DEL");
    for (let time = 0; time < 3; time += 1) await stop(id);
    assert.deepEqual(await chain(), [...add, ...del, ...del, ...del, ...del]);
    for (const { stdin } of await fake.calls("DEL"))
      assert.deepEqual([stdin["name"], stdin["prevResult"]], ["net", oneAddress]);
  });

  test("before ADD, since its container could not be removed, gets no DEL from StopPodSandbox, over a restart", async () => {
    await run(withPort("first"));
    shim.world.journal.failNext("engine.removeContainer", new ShimError("unknown", "the engine is confused"));
    await rejectsWith(run(withPort("second")), "conflict");
    const [, id = ""] = shim.engine.containers.ids;
    rpcs = await openRpcs();
    await stop(id);
    assert.deepEqual(await chain(), add);
  });
});

test("a sandbox that a killed shim left in the middle of ADD is released with its cached result", async () => {
  await fake.behave("two", "ADD", "exit 1");
  // The undo never came.
  await fake.behave("two", "DEL", "exit 1");
  await rejectsWith(run(), "unknown");
  await fake.behaveAgain("two", "DEL");
  const [id = ""] = shim.engine.containers.ids;
  rpcs = await openRpcs();
  const before = (await chain()).length;
  await stop(id);
  assert.deepEqual((await chain()).slice(before), del);
  await stop(id);
  assert.equal((await chain()).length, before + del.length);
});

test("a pod that was ready is released by the present network list when its cached result is lost", async () => {
  const id = await run();
  await rm(join(fake.directory, "cache", "results"), { recursive: true });
  rpcs = await openRpcs();
  await stop(id);
  assert.deepEqual(await chain(), [...add, ...del]);
});

describe("the next attempt of a pod", () => {
  const attempt = (number: number, uid?: string): ValidRunPodSandbox => withPort("web", number, uid);

  /** Attempt 0, as a kill in the middle of ADD leaves it: its container runs, and it never gets ready. */
  async function leaveDead(): Promise<string> {
    await fake.behave("two", "ADD", "exit 1");
    await fake.behave("two", "DEL", "exit 1");
    await rejectsWith(run(attempt(0)), "unknown");
    await fake.behaveAgain("two", "ADD");
    const [id = ""] = shim.engine.containers.ids;
    return id;
  }

  test("gets the host port and the network of one that died, which is released first", async () => {
    const dead = await leaveDead();
    await fake.behaveAgain("two", "DEL");
    const before = (await chain()).length;
    const id = await run(attempt(1));
    assert.deepEqual((await chain()).slice(before), [...del, ...add]);
    assert.deepEqual(await shim.listedSandboxes(), { [dead]: 1, [id]: 0 });
    assert.equal(shim.services.records.pods.get(dead)?.network.state, "tornDown");
    assert.equal(shim.services.state.model.snapshot(dead)?.state.running, false);
    await stop(dead);
    assert.deepEqual((await chain()).slice(before), [...del, ...add]);
  });

  test("is refused the host port as long as the dead one cannot be released, and one of another uid always", async () => {
    const dead = await leaveDead();
    await rejectsWith(run(attempt(1)), "conflict", new RegExp(`taken by pod "web_default" .sandbox ${dead}`));
    const said = shim.log.lines.map(({ message }) => message);
    assert.ok(said.includes("cannot release a previous sandbox of the pod"));
    await fake.behaveAgain("two", "DEL");
    const before = (await chain()).length;
    await rejectsWith(run(attempt(0, "another")), "conflict");
    assert.equal((await chain()).length, before);
  });

  test("is refused the host port of one that is ready, and leaves it whole", async () => {
    const ready = await run(attempt(0));
    await rejectsWith(run(attempt(1)), "conflict", /taken by pod "web_default"/);
    assert.deepEqual(await shim.listedSandboxes(), { [ready]: 0 });
    assert.deepEqual(await chain(), add);
  });

  test("leaves one alone whose pause container has ended while another of its containers runs", async () => {
    const old = await run(attempt(0));
    const container = await shim.runContainer(old);
    await shim.engine.stopContainer(old, 0, never);
    await rejectsWith(run(attempt(1)), "conflict", /taken by pod "web_default"/);
    assert.equal(shim.services.state.model.snapshot(container)?.state.running, true);
    assert.deepEqual(await chain(), add);
  });

  test("waits for an attempt that is still being made, and leaves it when it is ready", async () => {
    const gate = join(fake.directory, "gate");
    const answer = `echo '${JSON.stringify(oneAddress)}'`;
    await fake.behave("two", "ADD", `while [ ! -e '${gate}' ]; do sleep 0.01; done; ${answer}`);
    const first = run(attempt(0));
    await untilSecondAdd();
    const second = run(attempt(1));
    second.catch(() => undefined);
    await writeFile(gate, "");
    const id = await first;
    await rejectsWith(second, "conflict", /taken by pod "web_default"/);
    assert.deepEqual(await shim.listedSandboxes(), { [id]: 0 });
    assert.deepEqual(await chain(), add);
  });
});
