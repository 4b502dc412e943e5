import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  type Answer,
  type ContainerStats,
  type PodSandboxMetrics,
  PodSandboxState,
} from "../../../src/shim/domain/cri.js";
import { toEngineReading } from "../../../src/shim/engine/stats.js";
import { inChunks } from "../../../src/shim/cri/in-chunks.js";
import { createContainer, runContainer, runSandbox } from "../../fakes/pods.js";
import { runRequest } from "../../fakes/requests.js";
import { TestShim } from "../../fakes/services.js";

const metadata = (name: string) => ({ name, namespace: "default", uid: `uid-${name}`, attempt: 0 });

/** A client that takes everything, as it came. */
function receiver<Message>() {
  const messages: Message[] = [];
  const send = (message: Message): Promise<void> => {
    messages.push(message);
    return Promise.resolve();
  };
  return { messages, send };
}

describe("inChunks()", () => {
  for (const [count, sizes] of [
    [0, []],
    [1, [1]],
    [1000, [1000]],
    [2001, [1000, 1000, 1]],
  ] as const) {
    test(`sends ${String(count)} items in ${String(sizes.length)} messages, each once and in order`, async () => {
      const items = Array.from({ length: count }, (_, index) => index);
      const { messages, send } = receiver<readonly number[]>();
      await inChunks(items, send);
      assert.deepEqual(
        messages.map(({ length }) => length),
        sizes,
      );
      assert.deepEqual(messages.flat(), items);
    });
  }

  test("waits for the client before the next message, and ends with it", async () => {
    let sent = 0;
    await assert.rejects(
      inChunks(Array.from({ length: 3000 }), async () => {
        await Promise.resolve();
        sent += 1;
        if (sent === 2) throw new Error("the client left");
      }),
      /the client left/,
    );
    assert.equal(sent, 2);
  });
});

describe("streamed lists", () => {
  test("are those of the unary calls, filters included", async () => {
    await using shim = await TestShim.start();
    const one = await runSandbox(shim, runRequest({ metadata: metadata("one") }));
    const two = await runSandbox(shim, runRequest({ metadata: metadata("two") }));
    await runContainer(shim, one, "main");
    await createContainer(shim, two, { metadata: { name: "other", attempt: 0 } });
    const stopped = { pod_sandbox_id: two };
    await shim.runtime.StopPodSandbox(stopped, shim.call());

    const sandboxFilters = [
      null,
      { id: one.slice(0, 8), state: null, label_selector: {} },
      { id: "", state: { state: PodSandboxState.SANDBOX_NOTREADY }, label_selector: { app: "web" } },
    ];
    for (const filter of sandboxFilters) {
      const { messages, send } = receiver<{ readonly pod_sandboxes?: readonly unknown[] | undefined }>();
      await shim.runtime.StreamPodSandboxes({ filter }, shim.call(), send);
      const { items } = await shim.runtime.ListPodSandbox({ filter }, shim.call());
      assert.deepEqual(
        messages.map(({ pod_sandboxes }) => pod_sandboxes),
        [items],
      );
    }
    for (const filter of [null, { id: "", state: null, pod_sandbox_id: one, label_selector: {} }]) {
      const { messages, send } = receiver<{ readonly containers?: readonly unknown[] | undefined }>();
      await shim.runtime.StreamContainers({ filter }, shim.call(), send);
      const { containers } = await shim.runtime.ListContainers({ filter }, shim.call());
      assert.deepEqual(
        messages.map((message) => message.containers),
        [containers],
      );
    }
    const { messages, send } = receiver<{ readonly images?: readonly unknown[] | undefined }>();
    await shim.image.StreamImages({ filter: null }, shim.call(), send);
    const { images } = await shim.image.ListImages({ filter: null }, shim.call());
    assert.deepEqual(
      messages.map((message) => message.images),
      [images],
    );
  });

  test("have the statistics of the list RPCs", async () => {
    await using shim = await TestShim.start();
    const sandbox = await runSandbox(shim, runRequest());
    const container = await runContainer(shim, sandbox);
    const reading = toEngineReading({ cpu_stats: { cpu_usage: { total_usage: 1000 } } });
    assert.ok(reading);
    for (const id of [sandbox, container]) shim.engine.readings.set(id, reading);
    const stats = receiver<{ readonly container_stats?: readonly Answer<ContainerStats>[] | undefined }>();
    await shim.runtime.StreamContainerStats({ filter: null }, shim.call(), stats.send);
    const idsOfStats = stats.messages.flatMap((message) => message.container_stats ?? []);
    assert.deepEqual(
      idsOfStats.map(({ attributes }) => attributes?.id),
      [container],
    );
    const metrics = receiver<{
      readonly pod_sandbox_metrics?: readonly Answer<PodSandboxMetrics>[] | undefined;
    }>();
    await shim.runtime.StreamPodSandboxMetrics({}, shim.call(), metrics.send);
    const idsOfMetrics = metrics.messages.flatMap((message) => message.pod_sandbox_metrics ?? []);
    assert.deepEqual(
      idsOfMetrics.map(({ pod_sandbox_id }) => pod_sandbox_id),
      [sandbox],
    );
  });

  test("end at once when there is nothing", async () => {
    await using shim = await TestShim.start();
    const { messages, send } = receiver<unknown>();
    await shim.runtime.StreamPodSandboxes({ filter: null }, shim.call(), send);
    await shim.runtime.StreamContainers({ filter: null }, shim.call(), send);
    await shim.runtime.StreamContainerStats({ filter: null }, shim.call(), send);
    await shim.runtime.StreamPodSandboxStats({ filter: null }, shim.call(), send);
    await shim.runtime.StreamPodSandboxMetrics({}, shim.call(), send);
    assert.deepEqual(messages, []);
  });
});
