import { fakeReach } from "../../../fakes/reach.js";
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { CgroupDriver } from "../../../../src/domain/cri.js";
import { ShimError } from "../../../../src/lib/errors.js";
import type { NodeFacts } from "../../../../src/domain/node-facts.js";
import { ociRuntimeName } from "../../../../src/domain/oci-changes.js";
import { nodeFacts } from "../../../fakes/node-facts.js";
import { rejectsWith } from "../../../support/refusals.js";
import { shimOfEachTest, TestShim } from "../../../fakes/services.js";
import { until } from "../../../fakes/turns.js";

const shim = shimOfEachTest();

const status = (shim: TestShim, verbose = false) => shim.rpcs.Status({ verbose }, shim.call());

async function conditions(shim: TestShim): Promise<Readonly<Record<string, string | true>>> {
  const answer = await status(shim);
  const entries = answer.status?.conditions?.map(({ type = "", status: ready, reason, message }) => [
    type,
    ready === true ? true : `${reason ?? ""}: ${message ?? ""}`,
  ]);
  return Object.fromEntries(entries ?? []) as Readonly<Record<string, string | true>>;
}

describe("status()", () => {
  test("lists the calls under way when it is verbose, without itself", async () => {
    const [start, own] = ["StartContainer", "Status"].map((rpc) => ({
      rpc,
      ms: 7,
      waitsFor: ["a lock (7 ms)"],
    }));
    const underWay = () => [start, own].filter((one) => one !== undefined);
    const { info } = await shim.rpcs.Status({ verbose: true }, { ...shim.call(), underWay });
    assert.deepEqual(JSON.parse(info?.["calls"] ?? ""), [start]);
  });

  test("tells why the network is not ready", async () => {
    shim.world.network.problem = "cni config uninitialized";
    assert.deepEqual(await conditions(shim), {
      RuntimeReady: true,
      NetworkReady: "NetworkPluginNotReady: docker: network plugin is not ready: cni config uninitialized",
    });
  });

  test("answers without an engine, and tells why the runtime is not ready, until the engine is back", async () => {
    const id = await shim.runSandbox();
    shim.engine.down();
    await until("the engine is lost", () => shim.services.state.link.state.phase === "lost");
    const { RuntimeReady } = await conditions(shim);
    const reason = /^DockerDaemonNotReady: docker: failed to reach the engine: .*connection refused$/;
    assert.match(String(RuntimeReady), reason);
    await rejectsWith(shim.listedSandboxes(), "unavailable", /connection refused/);
    shim.engine.up();
    await until("the engine is back", () => shim.services.state.link.state.phase === "live");
    assert.deepEqual(await conditions(shim), { RuntimeReady: true, NetworkReady: true });
    assert.deepEqual(await shim.listedSandboxes(), { [id]: 0 });
  });

  test("is not ready while the read model is not live, although the engine answers", async () => {
    shim.services.state.link.set({ phase: "recovering", facts: undefined });
    assert.match(String((await conditions(shim))["RuntimeReady"]), /still being read/);
    shim.services.state.link.set({ phase: "lost", reason: new ShimError("precondition", "engine too old") });
    assert.match(String((await conditions(shim))["RuntimeReady"]), /engine too old/);
  });

  test("sends nothing after a recent answer while the link is live, and pings when it is not", async () => {
    const asked: number[] = [];
    shim.engine.hasAnswered = (recentMs) => asked.push(recentMs) > 0;
    await status(shim);
    assert.deepEqual(asked, [2_000]);
    assert.deepEqual(shim.world.journal.names("engine.ping"), []);
    shim.services.state.link.set({ phase: "recovering", facts: undefined });
    await status(shim);
    assert.deepEqual(shim.world.journal.argsOf("engine.ping"), [[{ timeoutMs: 30_000 }]]);
  });

  test("ends with its caller when the engine is frozen", async () => {
    shim.engine.freeze();
    const call = shim.call();
    const pending = shim.rpcs.Status({ verbose: false }, call);
    await until("it waits", () => shim.world.journal.names("engine.ping").length > 0);
    call.abort(new ShimError("cancelled", "the caller left"));
    await rejectsWith(pending, "cancelled");
    shim.engine.up();
  });

  test("names the handlers that requests may name, the default one first", async () => {
    const kata = { name: "kata", kind: "ownShim", recursiveReadOnly: false } as const;
    await using shim = await TestShim.start({ facts: { runtimes: [...nodeFacts().runtimes, kata] } });
    const { runtime_handlers = [], features } = await status(shim);
    const names = runtime_handlers.map(({ name }) => name);
    assert.equal(names[0], "");
    for (const name of ["runc", "kata"]) assert.ok(names.includes(name), name);
    assert.equal(features?.supplemental_groups_policy, true);
  });

  for (const [defaultRuntime, isAnnounced] of [
    ["runc", true],
    ["nvidia", false],
  ] as const)
    test(`${isAnnounced ? "announces" : "does not announce"} what the OCI runtime does where the default runtime is ${defaultRuntime}`, async () => {
      const [runc] = nodeFacts().runtimes;
      assert.ok(runc);
      const own = { ...runc, name: ociRuntimeName, mappedMounts: true };
      const kata = { ...runc, name: "kata", kind: "ownShim" as const, mappedMounts: true };
      const runtimes = [runc, { ...runc, name: "nvidia", kind: "other" as const }, kata, own];
      await using shim = await TestShim.start({ facts: { runtimes, defaultRuntime } });
      shim.engine.startFailure = shim.world.ociRuntimeServer.startFailure;
      await shim.services.node.ociRuntime.find(nodeFacts({ runtimes, defaultRuntime }), shim.call().signal);
      const { runtime_handlers = [], features } = await status(shim);
      assert.equal(features?.mount_options, isAnnounced);
      const withUsers = runtime_handlers.filter((handler) => handler.features?.user_namespaces === true);
      // Others run without it, whatever the engine says of them.
      assert.deepEqual(
        withUsers.map(({ name }) => name),
        isAnnounced ? ["", "docker", "runc"] : [],
      );
    });

  test("tells more when it is asked to", async () => {
    const { info } = await status(shim, true);
    assert.equal((JSON.parse(info?.["network"] ?? "") as Record<string, unknown>)["plugin"], "cni");
    assert.equal((JSON.parse(info?.["engine"] ?? "") as NodeFacts).engineVersion, "20.10.24");
    assert.deepEqual(JSON.parse(info?.["reach"] ?? ""), fakeReach(true));
    assert.deepEqual((await status(shim)).info, {});
  });
});

describe("version()", () => {
  test("is docker's, in the form that kubelets parse, without asking the engine", async () => {
    shim.world.journal.clear();
    assert.deepEqual(await shim.rpcs.Version({ version: "" }, shim.call()), {
      version: "0.1.0",
      runtime_name: "docker",
      runtime_version: "20.10.24",
      runtime_api_version: "1.41.0",
    });
    assert.deepEqual(shim.world.journal.names(), []);
  });
});

test("runtimeConfig() answers the engine's cgroup driver", async () => {
  for (const [cgroupDriver, expected] of [
    ["systemd", CgroupDriver.SYSTEMD],
    ["cgroupfs", CgroupDriver.CGROUPFS],
    ["none", CgroupDriver.CGROUPFS],
  ] as const) {
    shim.services.state.link.set({ phase: "live", facts: nodeFacts({ cgroupDriver }) });
    const answer = await shim.rpcs.RuntimeConfig({}, shim.call());
    assert.deepEqual(answer, { linux: { cgroup_driver: expected } });
  }
});

describe("updateRuntimeConfig()", () => {
  for (const [text, expected] of [
    ["10.1.0.0/24", [[["10.1.0.0/24"]]]],
    ["10.1.0.0/24, fd00::/64", [[["10.1.0.0/24", "fd00::/64"]]]],
    ["", []],
  ] as const) {
    test(`hands "${text}" to the network plugin`, async () => {
      const request = { runtime_config: { network_config: { pod_cidr: text } } };
      await shim.rpcs.UpdateRuntimeConfig(request, shim.call());
      assert.deepEqual(shim.world.journal.argsOf("network.podCidrChanged"), expected);
    });
  }
});
