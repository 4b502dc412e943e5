import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ShimError } from "../../../../src/lib/errors.js";
import type { Answer, ContainerEventResponse } from "../../../../src/domain/cri.js";
import { ContainerState, PodSandboxState } from "../../../../src/domain/cri.js";
import { sandboxIdLabel, typeLabel } from "../../../../src/domain/labels.js";
import { rejectsWith } from "../../../support/refusals.js";
import { shimOfEachTest, TestShim } from "../../../fakes/services.js";
import { turns, until } from "../../../fakes/turns.js";

const shim = shimOfEachTest();

type Event = Answer<ContainerEventResponse>;

const names = ["CREATED", "STARTED", "STOPPED", "DELETED"];

/** A client of GetContainerEvents that reads when it is let. */
class Client implements AsyncDisposable {
  readonly events: Event[] = [];
  reads: () => Promise<void> = () => Promise.resolve();
  readonly ended: Promise<void>;

  constructor(
    shim: TestShim,
    private readonly call = shim.call("GetContainerEvents"),
  ) {
    this.ended = shim.rpcs.GetContainerEvents({}, call, async (event) => {
      await this.reads();
      this.events.push(event);
    });
    this.ended.catch(() => undefined);
  }

  static async open(shim: TestShim): Promise<Client> {
    const client = new Client(shim);
    await turns(3);
    return client;
  }

  /** `STARTED main` for a container, `STARTED sandbox` for a sandbox. */
  get texts(): readonly string[] {
    return this.events.map((event) => {
      const { container_id: id = "", container_event_type: type = 0, pod_sandbox_status: sandbox } = event;
      const known = event.containers_statuses?.find((one) => one.id === id)?.metadata?.name;
      return `${names[type] ?? "?"} ${id === sandbox?.id ? "sandbox" : (known ?? "container")}`;
    });
  }

  async received(count: number): Promise<readonly string[]> {
    await until(`${count} events have come`, () => this.events.length >= count);
    await turns(5);
    return this.texts;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.call.abort(new ShimError("cancelled", "the client left"));
    await this.ended.catch(() => undefined);
  }
}

/** A container of a pod as the engine alone knows it. */
function createBehindTheShim(shim: TestShim, sandboxId: string, name: string): string {
  return shim.engine.containers.create(`k8s_${name}_web_default_uid-1_0`, {
    Image: "busybox",
    Labels: { [typeLabel]: "container", [sandboxIdLabel]: sandboxId },
    HostConfig: {},
  });
}

/** A container that the shim has listed and not inspected. */
function createPending(shim: TestShim, sandboxId: string): string {
  const pending = createBehindTheShim(shim, sandboxId, "pending");
  const [listed] = shim.engine.containers.list({}).filter(({ id }) => id === pending);
  assert.ok(listed);
  shim.services.state.model.expect(listed);
  return pending;
}

describe("getContainerEvents()", () => {
  test("tells the life of a pod, in order, with the statuses of that moment", async () => {
    await using client = await Client.open(shim);
    const sandbox = await shim.runSandbox();
    const id = await shim.createContainer(sandbox);
    await shim.startContainer(id);
    await shim.stopContainer(id);
    await shim.removeSandbox(sandbox);
    assert.deepEqual(await client.received(8), [
      ...["CREATED sandbox", "STARTED sandbox", "CREATED main", "STARTED main"],
      ...["STOPPED main", "STOPPED sandbox", "DELETED container", "DELETED sandbox"],
    ]);
    const { SANDBOX_READY: ready, SANDBOX_NOTREADY: notReady } = PodSandboxState;
    const found = client.events.map(({ pod_sandbox_status: status }) => status?.state);
    assert.deepEqual(found, [ready, ready, ready, ready, ready, notReady, notReady, notReady]);
    const { CONTAINER_CREATED, CONTAINER_RUNNING, CONTAINER_EXITED } = ContainerState;
    const exited = [CONTAINER_EXITED];
    const states = client.events.map((event) => event.containers_statuses?.map(({ state }) => state));
    assert.deepEqual(states, [[], [], [CONTAINER_CREATED], [CONTAINER_RUNNING], exited, exited, [], []]);
    for (const { pod_sandbox_status: status } of client.events)
      assert.deepEqual(status?.metadata, { name: "web", namespace: "default", uid: "uid-1", attempt: 0 });
    const [, first, , last] = client.events.map(({ pod_sandbox_status: status }) => status?.network);
    assert.deepEqual(first, last);
    assert.notEqual(last?.ip ?? "", "");
  });

  test("shows each status as ContainerStatus and PodSandboxStatus do, in a time that orders both", async () => {
    await using client = await Client.open(shim);
    const sandbox = await shim.runSandbox();
    const id = await shim.runContainer(sandbox);
    await client.received(4);
    const last = client.events[3];
    const { status } = await shim.rpcs.ContainerStatus({ container_id: id, verbose: false }, shim.call());
    const pod = await shim.rpcs.PodSandboxStatus({ pod_sandbox_id: sandbox, verbose: false }, shim.call());
    assert.deepEqual(last?.containers_statuses, [status]);
    assert.deepEqual(pod.containers_statuses, [status]);
    assert.deepEqual(last.pod_sandbox_status, pod.status);
    const times = [...client.events.map(({ created_at }) => created_at), pod.timestamp].map(
      (time = "0") => time,
    );
    const sorted = [...new Set(times)].sort((a, b) => (BigInt(a) < BigInt(b) ? -1 : 1));
    assert.deepEqual(times, sorted);
  });

  test("says nothing of what was there before the client, or before the shim", async () => {
    await using earlier = await TestShim.start();
    const sandbox = await earlier.runSandbox();
    const id = await earlier.runContainer(sandbox);
    await using shim = await earlier.restart();
    await using client = await Client.open(shim);
    await shim.services.state.sync.refresh(id);
    await shim.services.state.sync.refresh(sandbox);
    await shim.stopContainer(id);
    assert.deepEqual(await client.received(1), ["STOPPED main"]);
  });

  test("loses no transition when the engine's events are late, doubled or lost", async () => {
    const sandbox = await shim.runSandbox();
    await using client = await Client.open(shim);
    shim.engine.events$.policy = () => [];
    const id = createBehindTheShim(shim, sandbox, "short");
    shim.engine.containers.start(id);
    shim.engine.containers.exit(id, 1);
    await shim.services.state.sync.refresh(id);
    const expected = ["CREATED short", "STARTED short", "STOPPED short"];
    assert.deepEqual(await client.received(3), expected);
    shim.engine.events$.policy = () => [0, 5];
    shim.engine.containers.remove(id, { force: true });
    assert.deepEqual(await client.received(4), [...expected, "DELETED container"]);
  });

  test("tells after a lost connection what has changed, and nothing else", async () => {
    const sandbox = await shim.runSandbox();
    const stays = await shim.runContainer(sandbox, "stays");
    const ends = await shim.runContainer(sandbox, "ends");
    await using client = await Client.open(shim);
    shim.engine.down();
    await until("the engine is lost", () => shim.services.state.link.state.phase === "lost");
    shim.engine.containers.exit(ends, 0);
    const fresh = createBehindTheShim(shim, sandbox, "fresh");
    shim.engine.up();
    const texts = [...(await client.received(2))].sort();
    assert.deepEqual(texts, ["CREATED fresh", "STOPPED ends"]);
    assert.ok(client.events.every(({ container_id: id }) => id !== stays && id !== sandbox));
    // Each shows the whole pod, also the container that was just being read when the other one was told of.
    for (const { containers_statuses: statuses } of client.events)
      assert.deepEqual(statuses?.map(({ id }) => id).sort(), [stays, ends, fresh].sort());
  });

  test("holds the events of a pod back while one of its containers cannot be read", async () => {
    const sandbox = await shim.runSandbox();
    const known = await shim.runContainer(sandbox, "known");
    await using client = await Client.open(shim);
    shim.engine.events$.policy = () => [];
    const pending = createPending(shim, sandbox);
    await shim.stopContainer(known);
    await turns(10);
    assert.deepEqual(client.texts, []);
    await shim.services.state.sync.refresh(pending);
    assert.deepEqual(await client.received(2), ["STOPPED known", "CREATED pending"]);
  });

  test("shows a sandbox only when RunPodSandbox has ended, and one that was undone never", async () => {
    await using client = await Client.open(shim);
    shim.world.journal.failNext("network.setUpPod", new ShimError("unknown", "no address left"));
    await rejectsWith(shim.runSandbox(), "unknown", /no address left/);
    await turns(10);
    assert.deepEqual(client.texts, []);
    const held = shim.holdRequests("startContainer");
    const running = shim.runSandbox();
    await held.begun();
    await turns(10);
    assert.deepEqual(client.texts, []);
    held.release();
    await running;
    assert.deepEqual(await client.received(2), ["CREATED sandbox", "STARTED sandbox"]);
    assert.equal(client.events[0]?.pod_sandbox_status?.state, PodSandboxState.SANDBOX_READY);
  });

  test("tells of containers whose sandbox the engine has lost, as the last known sandbox", async () => {
    const sandbox = await shim.runSandbox();
    const id = await shim.runContainer(sandbox);
    await using client = await Client.open(shim);
    shim.engine.containers.remove(sandbox, { force: true });
    await shim.services.state.sync.refresh(sandbox);
    shim.engine.containers.remove(id, { force: true });
    await shim.services.state.sync.refresh(id);
    await client.received(3);
    const { container_id, pod_sandbox_status: status } = client.events.at(-1) ?? {};
    const shown = [container_id, status?.metadata?.uid, status?.state];
    assert.deepEqual(shown, [id, "uid-1", PodSandboxState.SANDBOX_NOTREADY]);
  });

  test("gives every client every event, described once, and asks nothing without clients", async (t) => {
    const { mock } = t.mock.method(shim.services.images.cache, "get");
    const sandbox = await shim.runSandbox();
    await shim.runContainer(sandbox, "unheard");
    assert.equal(mock.callCount(), 0);
    await using one = await Client.open(shim);
    await using two = await Client.open(shim);
    await shim.createContainer(sandbox, { metadata: { name: "heard", attempt: 0 } });
    await one.received(1);
    await two.received(1);
    assert.deepEqual(one.texts, ["CREATED heard"]);
    assert.equal(one.events[0], two.events[0]);
    assert.equal(mock.callCount(), 2);
  });

  test("ends a client that does not keep up with exhausted, and no other", async () => {
    const sandbox = await shim.runSandbox();
    const id = await shim.runContainer(sandbox);
    await using slow = await Client.open(shim);
    await using quick = await Client.open(shim);
    let resume!: () => void;
    slow.reads = () => new Promise<void>((resolve) => (resume = resolve));
    shim.engine.events$.policy = () => [];
    for (let round = 0; round < 501; round += 1) {
      shim.engine.containers.restart(id);
      await shim.services.state.sync.refresh(id);
    }
    await quick.received(1002);
    resume();
    await rejectsWith(slow.ended, "exhausted", /more than 1000 events wait/);
    assert.equal(quick.events.length, 1002);
  });

  test("fails unavailable without an engine, and ends with its caller", async () => {
    const client = await Client.open(shim);
    await client[Symbol.asyncDispose]();
    await rejectsWith(client.ended, "cancelled");
    shim.engine.down();
    await until("the engine is lost", () => shim.services.state.link.state.phase === "lost");
    await using late = new Client(shim);
    await rejectsWith(late.ended, "unavailable");
  });

  test("ends the streams when a pod cannot be described, so that nothing is missed in silence", async () => {
    const sandbox = await shim.runSandbox();
    await using client = await Client.open(shim);
    shim.services.images.cache.get = () => Promise.reject(new ShimError("unknown", "broken"));
    await shim.createContainer(sandbox);
    await rejectsWith(client.ended, "unknown", /broken/);
  });
});

describe("podSandboxStatus() for EventedPLEG", () => {
  test("leaves containers and time out while a container of the pod is pending", async () => {
    const sandbox = await shim.runSandbox();
    await shim.runContainer(sandbox);
    shim.engine.events$.policy = () => [];
    const pending = createPending(shim, sandbox);
    const ask = () => shim.rpcs.PodSandboxStatus({ pod_sandbox_id: sandbox, verbose: false }, shim.call());
    const before = await ask();
    assert.deepEqual([before.containers_statuses, before.timestamp], [undefined, undefined]);
    await shim.services.state.sync.refresh(pending);
    const after = await ask();
    assert.equal(after.containers_statuses?.length, 2);
    assert.ok(BigInt(after.timestamp ?? 0) > 0n);
  });

  test("shows the newest container first, as kubelets take the first one of a name", async () => {
    const sandbox = await shim.runSandbox();
    await using client = await Client.open(shim);
    const first = await shim.runContainer(sandbox, "main");
    const other = await shim.runContainer(sandbox, "other");
    shim.engine.containers.exit(first, 1);
    const second = await shim.createContainer(sandbox, { metadata: { name: "main", attempt: 1 } });
    await shim.startContainer(second);
    const status = await shim.rpcs.PodSandboxStatus({ pod_sandbox_id: sandbox, verbose: false }, shim.call());
    const found = status.containers_statuses?.map(({ id }) => id);
    assert.deepEqual(found, [second, other, first]);
    await client.received(7);
    const seen = client.events.at(-1)?.containers_statuses?.map(({ id }) => id);
    assert.deepEqual(seen, [second, other, first]);
  });
});
