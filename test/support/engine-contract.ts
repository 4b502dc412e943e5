/** What the ports of the shim expect of a Docker Engine, as tests: of the real one, and of the fake one that stands for it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import type { CreateBody } from "../../src/domain/create-body.js";
import type { NodeFacts } from "../../src/domain/node-facts.js";
import { isKind } from "../../src/lib/errors.js";
import type { Engine, ExecOptions } from "../../src/shim/ports/engine.js";

/** Key of the label on everything that a test makes. */
export const testLabel = "dockershim.test/engine";

/** An engine with an image whose command is `sleep 3600`, for the user root. */
export interface ContractEngine {
  readonly engine: Engine;
  readonly facts: NodeFacts;
  /** Different for each run: part of all names, and the value of the label. */
  readonly run: string;
  readonly image: string;
  /** Creates a container that is removed at the end of the scope. */
  container(overrides?: Partial<CreateBody>): Promise<TestContainer>;
}

export interface TestContainer extends AsyncDisposable {
  readonly id: string;
  readonly name: string;
}

/** For calls that no test means to interrupt. */
export function anySignal(): AbortSignal {
  return AbortSignal.timeout(60_000);
}

export function execOf(command: readonly string[], overrides: Partial<ExecOptions> = {}): ExecOptions {
  return { command, tty: false, stdin: false, stdout: true, stderr: true, ...overrides };
}

let made = 0;

/** `container` of an engine. */
export async function makeContainer(
  { engine, run, image }: Pick<ContractEngine, "engine" | "run" | "image">,
  overrides: Partial<CreateBody> = {},
): Promise<TestContainer> {
  const name = `dockershim-engine-test-${run}-${(made += 1)}`;
  const body = {
    Image: image,
    Labels: { [testLabel]: run },
    HostConfig: { NetworkMode: "none" },
    ...overrides,
  };
  const id = await engine.createContainer(name, body, anySignal());
  return {
    id,
    name,
    [Symbol.asyncDispose]: async () => {
      await engine.removeContainer(id, { force: true }, anySignal());
    },
  };
}

/** Defines the tests. `at` is complete when they run. */
export function engineContract(at: ContractEngine): void {
  test("a container goes through its life, and each verb says when there is nothing to do", async () => {
    const { engine } = at;
    await using container = await at.container({
      Labels: { [testLabel]: at.run, __proto__: "odd" },
      Env: ["A=b"],
      StopSignal: "SIGKILL",
      Tty: true,
      OpenStdin: true,
      User: "7:8",
      HostConfig: {
        NetworkMode: "none",
        Memory: 64 << 20,
        MemorySwap: 64 << 20,
        CpuShares: 77,
        GroupAdd: ["9"],
        ReadonlyRootfs: true,
      },
    });
    const { id, name } = container;
    const created = await engine.inspectContainer(id, anySignal());
    assert.ok(created);
    assert.equal(created.id, id);
    assert.equal(created.name, name);
    assert.deepEqual(
      { ...created.state, error: "" },
      {
        status: "created",
        running: false,
        pid: 0,
        exitCode: 0,
        oomKilled: false,
        error: "",
        started: 0n,
        finished: 0n,
      },
    );
    assert.ok(created.created > 1_600_000_000_000_000_000n);
    assert.equal(created.imageName, at.image);
    assert.equal(created.imageId, (await engine.inspectImage(at.image, anySignal()))?.id);
    assert.deepEqual(
      [created.user, created.tty, created.openStdin, created.stdinOnce, created.stopSignal, created.groupAdd],
      ["7:8", true, true, false, "SIGKILL", ["9"]],
    );
    assert.equal(created.labels[testLabel], at.run);
    assert.deepEqual(
      [created.networkMode, created.privileged, created.runtime],
      ["none", false, at.facts.defaultRuntime],
    );
    assert.deepEqual([created.resources.memory, created.resources.cpuShares], [64 << 20, 77]);
    assert.deepEqual(created.addresses, []);

    assert.equal(await engine.killContainer(id, "SIGTERM", anySignal()), "notRunning");
    assert.equal(await engine.startContainer(id, anySignal()), "started");
    assert.equal(await engine.startContainer(id, anySignal()), "already");
    const running = await engine.inspectContainer(id, anySignal());
    assert.equal(running?.state.status, "running");
    assert.ok(running.state.pid > 0);
    assert.ok(running.state.started > created.created);
    assert.match(running.logPath, /json\.log$/);

    const listed = await engine.listContainers({ labelKey: testLabel, labelValue: at.run }, anySignal());
    const entry = listed.find((one) => one.id === id);
    assert.deepEqual([entry?.status, entry?.names, entry?.labels[testLabel]], ["running", [name], at.run]);
    const byKey = await engine.listContainers({ labelKey: testLabel }, anySignal());
    assert.ok(byKey.some((one) => one.id === id));
    const byOther = await engine.listContainers({ labelKey: testLabel, labelValue: "other" }, anySignal());
    assert.deepEqual(byOther, []);

    await engine.updateContainer(id, { Memory: 32 << 20, MemorySwap: 32 << 20, CpuShares: 99 }, anySignal());
    const updated = await engine.inspectContainer(id, anySignal());
    assert.deepEqual([updated?.resources.memory, updated?.resources.cpuShares], [32 << 20, 99]);

    assert.equal(await engine.stopContainer(id, 5, anySignal()), "stopped");
    assert.equal(await engine.stopContainer(id, 5, anySignal()), "already");
    const stopped = await engine.inspectContainer(id, anySignal());
    assert.deepEqual(
      [stopped?.state.status, stopped?.state.exitCode, stopped?.state.pid],
      ["exited", 137, 0],
    );
    assert.ok((stopped?.state.finished ?? 0n) > (stopped?.state.started ?? 0n));

    assert.equal(await engine.removeContainer(id, { force: false }, anySignal()), "removed");
    assert.equal(await engine.removeContainer(id, { force: false }, anySignal()), "missing");
    assert.equal(await engine.stopContainer(id, 1, anySignal()), "missing");
    assert.equal(await engine.killContainer(id, "SIGTERM", anySignal()), "missing");
    assert.equal(await engine.inspectContainer(id, anySignal()), undefined);
    await assert.rejects(engine.startContainer(id, anySignal()), (error) => isKind(error, "notFound"));
  });

  test("a taken name is a conflict with the id of the container that has it", async () => {
    await using container = await at.container();
    const body = { Image: at.image, Labels: { [testLabel]: at.run }, HostConfig: {} };
    await assert.rejects(at.engine.createContainer(container.name, body, anySignal()), (error) => {
      assert.ok(isKind(error, "conflict"), String(error));
      assert.equal(error.fields["conflictingId"], container.id);
      return true;
    });
  });

  test("a create from an image that is not there is notFound and says what is missing", async () => {
    await assert.rejects(at.container({ Image: "dockershim.local/nosuch:1" }), (error) => {
      assert.ok(isKind(error, "notFound"), String(error));
      assert.equal(error.fields["missing"], "image");
      return true;
    });
  });

  test("a running container is not removed without force", async () => {
    await using container = await at.container();
    await at.engine.startContainer(container.id, anySignal());
    await assert.rejects(at.engine.removeContainer(container.id, { force: false }, anySignal()), (error) =>
      isKind(error, "precondition"),
    );
  });

  test("an abort ends the streams with its reason and leaves the process running", async () => {
    await using container = await at.container();
    await at.engine.startContainer(container.id, anySignal());
    const options = execOf(["sleep", "3600"]);
    const id = await at.engine.createExec(container.id, options, anySignal());
    const caller = new AbortController();
    const streams = await at.engine.startExec(id, options, caller.signal);
    const reading = assert.rejects(
      streams.readOutput(() => undefined),
      (error) => isKind(error, "cancelled"),
    );
    while (((await at.engine.inspectExec(id, anySignal()))?.pid ?? 0) === 0) await delay(10);
    caller.abort();
    await reading;
    streams.close();
    assert.equal((await at.engine.inspectExec(id, anySignal()))?.running, true);
  });

  test("an exec in a container that does not run is a precondition, in none notFound, none itself undefined", async () => {
    await using stopped = await at.container();
    const options = execOf(["true"]);
    await assert.rejects(at.engine.createExec(stopped.id, options, anySignal()), (error) =>
      isKind(error, "precondition"),
    );
    await assert.rejects(at.engine.createExec("nosuch", options, anySignal()), (error) =>
      isKind(error, "notFound"),
    );
    await assert.rejects(at.engine.startExec("nosuch", options, anySignal()), (error) =>
      isKind(error, "notFound"),
    );
    assert.equal(await at.engine.inspectExec("nosuch", anySignal()), undefined);
  });

  test("an image that is not there is undefined or missing", async () => {
    const { engine } = at;
    for (const reference of [
      "dockershim.local/nosuch:1",
      "f".repeat(64),
      `sha256:${"f".repeat(64)}`,
      "",
      "a//b",
      "..",
    ]) {
      assert.equal(await engine.inspectImage(reference, anySignal()), undefined, reference);
    }
    assert.equal(await engine.removeImage("dockershim.local/nosuch:1", anySignal()), "missing");
    await assert.rejects(engine.imageHistory("dockershim.local/nosuch:1", anySignal()), (error) =>
      isKind(error, "notFound"),
    );
  });

  test("an image that a running container uses is not removed", async () => {
    await using container = await at.container();
    await at.engine.startContainer(container.id, anySignal());
    const image = await at.engine.inspectImage(at.image, anySignal());
    await assert.rejects(at.engine.removeImage(image?.id ?? "", anySignal()), (error) =>
      isKind(error, "precondition"),
    );
  });
}
