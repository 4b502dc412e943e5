import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { describe, test } from "node:test";
import { ShimError } from "../../../src/lib/errors.js";
import { markOf } from "../../../src/lib/linux/process-mark.js";
import { scratchLabel } from "../../../src/shim/images/scratch-containers.js";
import { ContainerLogWriters } from "../../../src/shim/logs/container-log-writers.js";
import { repairAfterStart } from "../../../src/shim/recovery/repair.js";
import { createRequest, runRequest, sandboxConfig } from "../../fakes/requests.js";
import { shimOfEachTest, TestShim } from "../../fakes/services.js";

const shim = shimOfEachTest();

/** A container whose log this program writes, to a directory of the test. */
async function runWithOwnLog(shim: TestShim): Promise<{ readonly sandbox: string; readonly id: string }> {
  const directory = { log_directory: `${shim.world.directory}/pod-logs` };
  const sandbox = await shim.runSandbox(runRequest(directory));
  const request = { ...createRequest(sandbox), sandbox_config: sandboxConfig(directory) };
  const { container_id: id = "" } = await shim.rpcs.CreateContainer(request, shim.call("CreateContainer"));
  await shim.startContainer(id);
  return { sandbox, id };
}

describe("repairAfterStart()", () => {
  test("logs which log files have an unknown origin", async () => {
    const { host } = shim.world;
    const id = await shim.runContainer();
    for (const link of host.links.keys()) host.logFiles.add(link);
    host.links.clear();
    await repairAfterStart(shim.services);
    assert.equal(host.links.size, 0);
    const warnings = shim.log.lines.filter(({ level }) => level === "warn");
    const found = warnings.map(({ fields }) => fields["containerId"]);
    assert.deepEqual(found, [id]);
  });

  test("ends checkpoints of a killed process, whose containers run on, and none of its own", async () => {
    const { records } = shim.services;
    const { journal } = shim.world;
    const sandbox = await shim.runSandbox();
    const [running, paused, own] = [
      await shim.runContainer(sandbox, "a"),
      await shim.runContainer(sandbox, "b"),
      await shim.runContainer(sandbox, "c"),
    ];
    shim.engine.containers.setStatus(paused, "paused");
    await shim.services.state.sync.refresh(paused, shim.call().signal);
    const location = "/c/web.tar";
    // No process has a number that large.
    const killed = { location, server: { pid: 4_194_305, startTime: "1" } };
    for (const id of [running, paused]) await records.containers.noteCheckpoint(id, killed);
    await records.containers.noteCheckpoint(own, { location, server: markOf(process.pid) ?? killed.server });
    journal.failNext("host.endCheckpoint", new ShimError("unsupported", "out of reach"));
    await repairAfterStart(shim.services);
    assert.match(JSON.stringify(shim.log.lines), /its container may be frozen.*out of reach/);
    assert.deepEqual(records.containers.get(running)?.checkpoint, killed);
    await repairAfterStart(shim.services);
    const pid = shim.services.state.model.snapshot(running)?.state.pid;
    // The engine thaws what it has paused.
    assert.deepEqual(journal.argsOf("host.endCheckpoint"), [
      [running, location, pid],
      [paused, location, undefined],
      [running, location, pid],
    ]);
    assert.deepEqual(
      [...records.containers.all()].map(({ containerId }) => containerId),
      [own],
    );
  });

  test("goes on with logs of its own pods whose record was lost, and of no others", async () => {
    await using shim = await TestShim.start({ logFormat: "cri" });
    const { host } = shim.world;
    const { logs } = shim.services;
    const { pods } = shim.services.records;
    const { sandbox, id: own } = await runWithOwnLog(shim);
    for (const { logPath } of shim.services.state.model.containers()) host.logFiles.add(logPath);
    await logs.remove(own);
    const adopted: string[] = [];
    logs.adopt = ({ id }) => Promise.resolve(adopted.push(id) > 0);
    await repairAfterStart(shim.services);
    await pods.remove(sandbox);
    await repairAfterStart(shim.services);
    assert.deepEqual(adopted, [own]);
    const warnings = shim.log.lines.filter(({ level }) => level === "warn");
    assert.match(warnings[0]?.message ?? "", /is missing/);
    assert.match(warnings[1]?.message ?? "", /unknown origin/);
  });

  test("ends the log of a container that ended while its record was made anew", async () => {
    await using shim = await TestShim.start({ logFormat: "cri" });
    const { host } = shim.world;
    const { logs } = shim.services;
    const { sync } = shim.services.state;
    const { id } = await runWithOwnLog(shim);
    for (const { logPath } of shim.services.state.model.containers()) host.logFiles.add(logPath);
    await logs.remove(id);
    const adopt = logs.adopt.bind(logs);
    logs.adopt = async (container, target) => {
      shim.engine.containers.exit(container.id, 0);
      await sync.refresh(container.id);
      return adopt(container, target);
    };
    await repairAfterStart(shim.services);
    // What the record says last is stored within a second, or at the end of the program.
    assert.ok(logs instanceof ContainerLogWriters);
    await logs.stop();
    const text = await readFile(`${shim.world.directory}/logs/${id}.json`, "utf8");
    assert.equal((JSON.parse(text) as { finished: boolean }).finished, true);
  });

  test("goes on when a log cannot be linked", async () => {
    const sandbox = await shim.runSandbox();
    await shim.runContainer(sandbox, "one");
    const second = await shim.runContainer(sandbox, "two");
    shim.world.host.links.clear();
    shim.world.journal.failNext("host.restoreLogLink", new ShimError("unavailable", "disk full"));
    await repairAfterStart(shim.services);
    assert.deepEqual([...shim.world.host.links.values()], [second]);
  });

  test("leaves no link of containers that are removed meanwhile", async () => {
    const { host } = shim.world;
    const { pods } = shim.services.records;
    const { sync } = shim.services.state;
    const sandbox = await shim.runSandbox();
    const ids = [await shim.runContainer(sandbox, "one"), await shim.runContainer(sandbox, "two")];
    // Else the sweep of its log directory would come to them.
    await pods.remove(sandbox);
    host.links.clear();
    const restore = host.restoreLogLink.bind(host);
    host.restoreLogLink = async (link, container, signal) => {
      for (const id of ids) {
        shim.engine.containers.lose(id);
        await sync.refresh(id);
      }
      return restore(link, container, signal);
    };
    await repairAfterStart(shim.services);
    assert.deepEqual([...host.links], []);
  });

  test("removes the log links of containers that were removed while the program did not run", async () => {
    await using first = await TestShim.start();
    const sandbox = await first.runSandbox();
    const gone = await first.runContainer(sandbox, "gone");
    const kept = await first.runContainer(sandbox, "kept");
    const { links } = first.world.host;
    const foreign = "/var/log/pods/of-an-unknown-pod/main/0.log";
    links.set(foreign, gone);
    await first.sync.stop();
    first.engine.containers.lose(gone);
    await using second = await TestShim.start({ earlier: first.world });
    await repairAfterStart(second.services);
    assert.deepEqual([...links.values()].sort(), [kept, gone].sort());
    assert.ok(links.has(foreign), "not in the log directory of a pod on record");
  });

  test("removes scratch containers of earlier runs on the same state directory, and no others", async () => {
    const { containers } = shim.engine;
    const place = shim.world.directory.replaceAll("/", "-");
    const make = (name: string, Labels: Record<string, string>): string =>
      containers.create(name, { Image: "busybox", Labels, HostConfig: {} });
    make("dockershim-scratch-1", { [scratchLabel]: `${place}/an-earlier-run` });
    const others = make("dockershim-scratch-2", { [scratchLabel]: "elsewhere/its-run" });
    const foreign = make("foreign", {});
    await repairAfterStart(shim.services);
    assert.deepEqual(containers.ids, [others, foreign]);
  });

  test("goes on when one scratch container cannot be removed, and when a step fails as a whole", async () => {
    const { containers } = shim.engine;
    const place = shim.world.directory.replaceAll("/", "-");
    const Labels = { [scratchLabel]: `${place}/an-earlier-run` };
    const make = (name: string): string =>
      containers.create(name, { Image: "busybox", Labels, HostConfig: {} });
    const stuck = make("dockershim-scratch-1");
    make("dockershim-scratch-2");
    await shim.services.records.containers.merge("d".repeat(64), { unified: {}, hugepages: [] });
    shim.world.journal.failNext("engine.removeContainer", new ShimError("unavailable", "resource busy"));
    await repairAfterStart(shim.services);
    assert.deepEqual(containers.ids, [stuck]);
    assert.deepEqual([...shim.services.records.containers.all()], []);
    await shim.services.records.containers.merge("d".repeat(64), { unified: {}, hugepages: [] });
    shim.world.journal.failNext("engine.listContainers", new ShimError("unavailable", "too busy"));
    await repairAfterStart(shim.services);
    assert.deepEqual([...shim.services.records.containers.all()], [], "the whole step fails");
  });

  test("forgets records of what is gone, but none that still has something to release", async () => {
    const { pods, containers } = shim.services.records;
    const kept = await shim.runSandbox();
    const record = pods.get(kept);
    assert.ok(record);
    const [released, unreleased, checkpointed] = ["a".repeat(64), "b".repeat(64), "c".repeat(64)];
    const tornDown = { ...record.network, state: "tornDown" } as const;
    await pods.put({ ...record, sandboxId: released, network: tornDown });
    await pods.put({ ...record, sandboxId: unreleased });
    await pods.put({ ...record, sandboxId: checkpointed, network: tornDown });
    shim.addCheckpoint(checkpointed);
    await containers.merge("d".repeat(64), { unified: {}, hugepages: [] });
    const container = await shim.runContainer(kept);
    await containers.merge(container, { unified: {}, hugepages: [] });
    await repairAfterStart(shim.services);
    const found = [...pods.all()].map(({ sandboxId }) => sandboxId).sort();
    assert.deepEqual(found, [kept, unreleased, checkpointed].sort());
    // With it the kubelet sees the pod whose network is left, and removes it.
    const { name, namespace } = record;
    assert.deepEqual(shim.world.checkpoints.stored.get(unreleased), {
      version: "v1",
      name,
      namespace,
      data: {},
    });
    assert.ok(unreleased in (await shim.listedSandboxes()));
    await shim.stopSandbox(unreleased);
    await shim.removeSandbox(unreleased);
    assert.equal(pods.get(unreleased), undefined);
    const seen = [...containers.all()].map(({ containerId }) => containerId);
    assert.deepEqual(seen, [container]);
  });
});
