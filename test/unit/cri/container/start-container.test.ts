import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { ContainerLogs } from "../../../../src/shim/ports/container-logs.js";
import { startContainer as startContainerRpc } from "../../../../src/shim/cri/container/start-container.js";
import { ShimError } from "../../../../src/lib/errors.js";
import { rejectsWith } from "../../../support/refusals.js";
import { containerResources, hugepages } from "../../../fakes/requests.js";
import { shimOfEachTest, TestShim } from "../../../fakes/services.js";
import { until } from "../../../fakes/turns.js";

const shim = shimOfEachTest();

const link = "/var/log/pods/default_web_uid-1/main/0.log";

async function created(shim: TestShim, changes = {}) {
  const sandbox = await shim.runSandbox();
  return { sandbox, id: await shim.createContainer(sandbox, changes) };
}

/** It has limits that Docker cannot set, and a log. */
async function untilComplete(id: string): Promise<void> {
  await until("its limits are set", () => shim.world.journal.names("host.applyCgroup").length > 0);
  await until("its log is linked", () => shim.world.host.links.size > 0);
  assert.equal(shim.engine.containers.get(id).state.running, true);
  assert.equal(shim.world.journal.names("host.applyCgroup").length, 1);
  assert.deepEqual([...shim.world.host.links], [[link, id]]);
}

describe("startContainer()", () => {
  test("says which flag asks for ulimits that the kernel refuses", async () => {
    const defaultUlimits = [{ Name: "nofile", Soft: 1, Hard: 9_999_999 }];
    await using shim = await TestShim.start({ settings: { defaultUlimits } });
    const { id } = await created(shim);
    const refusal = "OCI runtime create failed: error setting rlimit type 7: operation not permitted";
    shim.engine.failNext("startContainer", new ShimError("unknown", refusal));
    const message =
      /^failed to start container ".*": set the ulimits of --default-ulimits \(nofile=1:9999999\): /;
    await rejectsWith(shim.startContainer(id), "precondition", message);
  });

  test("refuses a container of another program whose start would hang", async (t) => {
    const { id } = await created(shim);
    const inspect = shim.engine.containers.inspect.bind(shim.engine.containers);
    t.mock.method(shim.engine.containers, "inspect", (one: string) => {
      const snapshot = inspect(one);
      return snapshot && { ...snapshot, programBytes: 4096 };
    });
    await shim.sync.refresh(id);
    await rejectsWith(shim.startContainer(id), "invalid", /its command: names a program of more than 4095/);
    assert.deepEqual(shim.world.journal.argsOf("engine.startContainer"), [[shim.engine.containers.ids[0]]]);
  });

  test("starts it, links its log and shows it running, events or not", async () => {
    shim.engine.events$.policy = () => [];
    const { id } = await created(shim);
    await shim.startContainer(id);
    assert.deepEqual(await shim.listedContainers(), { [id]: 1 });
    assert.deepEqual([...shim.world.host.links], [[link, id]]);
    await shim.startContainer(id);
    assert.equal(shim.engine.containers.get(id).state.running, true, "twice, too");
  });

  test("restores the record of a log that a kill has kept from being written", async () => {
    const { id } = await created(shim);
    const calls: string[] = [];
    const used: Partial<ContainerLogs> = {
      ownerOf: () => undefined,
      owns: () => calls.length > 0,
      created: (containerId, { directory, path }) => {
        calls.push(`${containerId} ${directory} ${path}`);
        return Promise.resolve(true);
      },
      beforeStart: () => {
        calls.push("before start");
        return Promise.resolve();
      },
    };
    const services = { ...shim.services, logs: used as ContainerLogs };
    await startContainerRpc({ container_id: id }, services, shim.call("StartContainer"));
    assert.deepEqual(calls, [`${id} /var/log/pods/default_web_uid-1 ${link}`, "before start"]);
  });

  test("a container that was created with a link keeps it, also where new ones have files of their own", async () => {
    await using first = await TestShim.start({ logFormat: "docker" });
    const { id } = await created(first);
    await using second = await TestShim.start({ earlier: first.world, logFormat: "cri" });
    await second.startContainer(id);
    assert.deepEqual([...first.world.host.links], [[link, id]]);
  });

  test("stops it again when the sandbox was stopped while it started", async () => {
    const { sandbox, id } = await created(shim);
    const held = shim.holdRequests("startContainer");
    const starting = shim.startContainer(id);
    starting.catch(() => undefined);
    await held.begun();
    await shim.recordStopped(sandbox);
    held.release();
    await rejectsWith(starting, "precondition", /was stopped in the meantime/);
    assert.equal(shim.engine.containers.get(id).state.running, false);
  });

  test("gives limits and log also to a container whose caller left while it started", async () => {
    const { id } = await created(shim, hugepages);
    const call = shim.call();
    shim.world.journal.afterStep = ({ verb }) => {
      if (verb === "startContainer") call.abort(new ShimError("cancelled", "the caller left"));
    };
    await shim.rpcs.StartContainer({ container_id: id }, call).catch(() => undefined);
    shim.world.journal.afterStep = undefined;
    await untilComplete(id);
  });

  test("links no log when none is wanted", async () => {
    const { id } = await created(shim, { log_path: "" });
    await shim.startContainer(id);
    assert.equal(shim.world.host.links.size, 0);
  });

  test("refuses a container that has ended, one whose sandbox is not ready, and an unknown id", async () => {
    await rejectsWith(shim.startContainer("f".repeat(64)), "notFound", /No such container/);
    const { sandbox, id } = await created(shim);
    await shim.startContainer(id);
    shim.engine.containers.exit(id, 0);
    await shim.sync.refresh(id);
    await rejectsWith(shim.startContainer(id), "precondition", /it is exited/);
    const second = await shim.createContainer(sandbox, { metadata: { name: "two", attempt: 0 } });
    await shim.stopSandbox(sandbox);
    await rejectsWith(shim.startContainer(second), "precondition", /its sandbox ".*" is not ready/);
    assert.equal(shim.engine.containers.get(second).state.running, false);
  });
});

describe("startContainer() that fails", () => {
  test("links the log all the same, and shows the container as ended", async () => {
    const { id } = await created(shim);
    shim.engine.startFailure = () => new ShimError("unknown", "OCI runtime create failed: bad mount");
    const message = /^failed to start container ".*": OCI runtime create failed: bad mount$/;
    await rejectsWith(shim.startContainer(id), "unknown", message);
    assert.deepEqual([...shim.world.host.links], [[link, id]]);
    assert.deepEqual(await shim.listedContainers(), { [id]: 2 });
  });

  test("says in short that the executable is missing", async () => {
    const { id } = await created(shim);
    const long = 'OCI runtime create failed: exec: "nope": executable file not found in $PATH: unknown';
    shim.engine.startFailure = () => new ShimError("invalid", long);
    const message = new RegExp(`^failed to start container "${id}": executable not found in \\$PATH$`);
    await rejectsWith(shim.startContainer(id), "invalid", message);
  });

  test("reports why it failed, also when the log cannot be linked or the container not be inspected then", async () => {
    const { sandbox, id } = await created(shim);
    shim.engine.startFailure = () => new ShimError("unknown", "bad mount");
    shim.world.journal.failNext("host.linkLog", new ShimError("unavailable", "disk full"));
    await rejectsWith(shim.startContainer(id), "unknown", /bad mount/);
    const second = await shim.createContainer(sandbox, { metadata: { name: "two", attempt: 0 } });
    shim.engine.events$.policy = () => [];
    shim.engine.hangs = () => false;
    shim.engine.startFailure = () => {
      shim.engine.failNext("inspectContainer", new ShimError("timeout", "inspect hangs"));
      return new ShimError("unknown", "bad mount");
    };
    await rejectsWith(shim.startContainer(second), "unknown", /bad mount/);
  });
});

describe("startContainer() with cgroup settings", () => {
  test("applies them although the log cannot be linked", async () => {
    const { id } = await created(shim, hugepages);
    shim.world.journal.failNext("host.linkLog", new ShimError("unavailable", "disk full"));
    await rejectsWith(shim.startContainer(id), "unavailable", /link the log of container ".*": disk full/);
    assert.ok(shim.world.host.cgroups.has(id));
  });

  test("stops the container when they cannot be applied", async () => {
    const { id } = await created(shim, hugepages);
    shim.world.journal.failNext("host.applyCgroup", new ShimError("unsupported", "no hugetlb controller"));
    const message = /^failed to start container ".*": apply its cgroup limits: no hugetlb controller$/;
    await rejectsWith(shim.startContainer(id), "unsupported", message);
    assert.deepEqual(await shim.listedContainers(), { [id]: 2 });
  });

  test("is no error when the container has ended before they could be applied", async () => {
    const { id } = await created(shim, hugepages);
    shim.engine.events$.policy = () => [];
    shim.world.journal.failNext("host.applyCgroup", new ShimError("unsupported", "no such process"));
    shim.world.journal.afterStep = ({ verb }) => {
      if (verb !== "inspectContainer") return;
      shim.world.journal.afterStep = undefined;
      shim.engine.containers.exit(id, 0);
    };
    await shim.startContainer(id);
    assert.deepEqual(await shim.listedContainers(), { [id]: 2 });
    assert.equal(shim.engine.containers.get(id).state.exitCode, 0);
  });

  test("does without those that kubelets send for every container where no cgroup is in reach", async () => {
    const resources = containerResources({ hugepage_limits: [{ page_size: "2MB", limit: "0" }] });
    const { id } = await created(shim, { linux: { resources, security_context: null } });
    shim.world.journal.failNext("host.applyCgroup", new ShimError("unsupported", "out of reach"));
    await shim.startContainer(id);
    assert.deepEqual(await shim.listedContainers(), { [id]: 1 });
  });

  test("reports why they cannot be applied, also when the container cannot be stopped then", async () => {
    const { id } = await created(shim, hugepages);
    shim.world.journal.failNext("host.applyCgroup", new ShimError("unsupported", "no hugetlb controller"));
    shim.engine.failNext("stopContainer", new ShimError("timeout", "too slow"));
    await rejectsWith(shim.startContainer(id), "unsupported", /no hugetlb controller/);
  });

  test("stops a container whose inspect fails, because it has no limits", async () => {
    const { id } = await created(shim, hugepages);
    shim.engine.events$.policy = () => [];
    shim.world.journal.afterStep = ({ verb }) => {
      if (verb === "startContainer")
        shim.engine.failNext("inspectContainer", new ShimError("timeout", "inspect hangs"));
    };
    await rejectsWith(shim.startContainer(id), "timeout", /inspect hangs/);
    assert.equal(shim.engine.containers.get(id).state.running, false);
  });
});

describe("startContainer() whose answer from the engine is lost", () => {
  test("succeeds, with limits and log, when the container runs", async () => {
    const { id } = await created(shim, hugepages);
    shim.engine.loseNextAnswer("startContainer");
    await shim.startContainer(id);
    await untilComplete(id);
  });

  test("ends with its caller, and completes what the engine starts afterwards", async () => {
    const { id } = await created(shim, hugepages);
    const call = shim.call();
    const held = shim.holdRequests("startContainer");
    const starting = shim.rpcs.StartContainer({ container_id: id }, call);
    await held.begun();
    call.abort(new ShimError("timeout", "the deadline of the caller has passed"));
    await rejectsWith(starting, "timeout");
    assert.equal(shim.world.journal.names("host.applyCgroup").length, 0);
    held.release();
    await untilComplete(id);
  });
});

describe("startContainer() learns of OOM scores that cannot be lowered", () => {
  const refused = new ShimError("unknown", "write /proc/self/oom_score_adj: permission denied");
  const resources = containerResources({ oom_score_adj: "-997" });
  const score = { linux: { resources, security_context: null } };
  for (const [sandboxScore, floor] of [
    [-998, -998],
    [0, 0],
  ] as const) {
    test(`${floor === 0 ? "where" : "but not where"} its sandbox has ${sandboxScore}`, async () => {
      await using first = await TestShim.start();
      first.engine.startFailure = (_, { HostConfig: { OomScoreAdj = 0 } }) =>
        OomScoreAdj < sandboxScore ? refused : undefined;
      const sandbox = await first.runSandbox();
      // Another one, which has learned nothing yet.
      await using shim = await TestShim.start({ earlier: first.world });
      const id = await shim.createContainer(sandbox, score);
      shim.engine.startFailure = () => refused;
      await rejectsWith(shim.startContainer(id), "unknown");
      assert.equal(shim.services.node.oomScores.clamp(-998), floor);
    });
  }
});
