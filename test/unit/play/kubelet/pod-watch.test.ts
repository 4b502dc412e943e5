import assert from "node:assert/strict";
import { test } from "node:test";
import { watchPods } from "../../../../src/play/kubelet/pod-watch.js";
import {
  type Container,
  type ContainerEventResponse,
  ContainerEventType,
  ContainerState,
  type PodSandbox,
  PodSandboxState,
} from "../../../../src/domain/cri.js";
import { ShimError } from "../../../../src/lib/errors.js";
import { ManualClock } from "../manual-clock.js";

const labels = { "io.kubernetes.pod.namespace": "default", "io.kubernetes.pod.name": "web" };
const metadata = { namespace: "default", name: "web" };

for (const [what, containerEvents] of [
  [
    "refuses events",
    () => {
      throw new ShimError("unsupported", "no events");
    },
  ],
  [
    "ends them at once",
    async function* () {
      await Promise.resolve();
      yield* [];
    },
  ],
] as const satisfies readonly (readonly [string, () => AsyncIterable<ContainerEventResponse>])[])
  test(`watchPods() of a server that ${what} tells of starts, ends and what vanishes, by lists`, async () => {
    const clock = new ManualClock();
    const stop = new AbortController();
    const changes: (string | undefined)[] = [];
    let sandboxes: readonly PodSandbox[] = [];
    let containers: readonly Container[] = [];
    const client = {
      containerEvents,
      listPodSandboxes: () => Promise.resolve(sandboxes),
      listContainers: () => Promise.resolve(containers),
    };
    const watching = watchPods(
      { client, clock, onChange: (pod) => changes.push(pod), report: (line) => assert.fail(line) },
      stop.signal,
    );
    const show = async (sandbox: keyof typeof PodSandboxState | "", ...states: string[]): Promise<number> => {
      sandboxes =
        sandbox === "" ? [] : [{ id: "s", labels, state: PodSandboxState[sandbox] } as unknown as PodSandbox];
      containers = states.map((text) => {
        const [id = "", state = ""] = text.split("=");
        const value = ContainerState[`CONTAINER_${state}` as keyof typeof ContainerState];
        return { id, labels, state: value } as unknown as Container;
      });
      changes.length = 0;
      await clock.advance(1000);
      return changes.length;
    };
    await clock.advance(0);
    const ready = "SANDBOX_READY";
    const steps: readonly (readonly [number, ...Parameters<typeof show>])[] = [
      [1, ready],
      [0, ready, "a=CREATED"],
      [1, ready, "a=RUNNING"],
      [0, ready, "a=RUNNING"],
      [1, ready, "a=EXITED"],
      [0, ready, "a=EXITED", "b=CREATED"],
      [0, ready, "b=CREATED"],
      [1, ready, "b=RUNNING"],
      [1, ready],
      [1, "SANDBOX_NOTREADY"],
      [1, ""],
    ];
    for (const [index, [expected, ...step]] of steps.entries())
      assert.equal(await show(...step), expected, `step ${index}: ${step.join(" ")}`);
    assert.deepEqual(changes, ["default/web"]);
    stop.abort();
    await watching;
  });

test("watchPods() by events: not by those of what is created or cleared away", async () => {
  const clock = new ManualClock();
  const stop = new AbortController();
  const changes: (string | undefined)[] = [];
  const {
    CONTAINER_CREATED_EVENT,
    CONTAINER_STARTED_EVENT,
    CONTAINER_STOPPED_EVENT,
    CONTAINER_DELETED_EVENT,
  } = ContainerEventType;
  const events = [
    ["s", CONTAINER_CREATED_EVENT],
    ["c", CONTAINER_CREATED_EVENT],
    ["c", CONTAINER_STARTED_EVENT],
    ["c", CONTAINER_STOPPED_EVENT],
    ["c", CONTAINER_DELETED_EVENT],
    ["s", CONTAINER_DELETED_EVENT],
  ] as const;
  const client = {
    containerEvents: async function* () {
      await Promise.resolve();
      for (const [id, type] of events)
        yield {
          container_id: id,
          container_event_type: type,
          pod_sandbox_status: { id: "s", metadata },
        } as unknown as ContainerEventResponse;
      stop.abort();
    },
    listPodSandboxes: () => Promise.resolve([]),
    listContainers: () => Promise.resolve([]),
  };
  await watchPods(
    { client, clock, onChange: (pod) => changes.push(pod), report: (line) => assert.fail(line) },
    stop.signal,
  );
  assert.deepEqual(changes, ["default/web", "default/web", "default/web"]);
});
