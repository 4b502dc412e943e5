import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type ContainerEventResponse,
  ContainerEventType,
  ContainerState,
  PodSandboxState,
} from "../../../../src/domain/cri.js";
import { podEvents } from "../../../../src/play/cli/pod-events.js";
import type { PodContext } from "../../../../src/play/cli/pod-context.js";

const metadata = { name: "p", namespace: "default", uid: "u", attempt: 0 };
const sandbox = {
  ...{ id: "s", metadata, state: PodSandboxState.SANDBOX_READY, annotations: {}, created_at: "1000000001" },
};
const container = (name: string, created: string, started: string, finished = "0") => ({
  ...{ id: name, metadata: { name, attempt: 0 }, exit_code: 0, reason: "", message: "" },
  state: finished === "0" ? ContainerState.CONTAINER_RUNNING : ContainerState.CONTAINER_EXITED,
  ...{ created_at: created, started_at: started, finished_at: finished },
});
// All within one millisecond; the second is listed first.
const containers = [
  container("web", "1000000050", "1000000060"),
  container("init", "1000000010", "1000000020", "1000000040"),
];

async function eventsOf(follow: boolean, live: readonly ContainerEventResponse[]): Promise<string[]> {
  const lines: string[] = [];
  const client = {
    listPodSandboxes: () => Promise.resolve([sandbox]),
    listContainers: () => Promise.resolve(containers),
    containerStatus: (id: string) => Promise.resolve(containers.find((each) => each.id === id)),
    containerEvents: async function* () {
      await Promise.resolve();
      yield* live;
    },
  } as unknown as PodContext["client"];
  const print = (text: string): unknown => lines.push(text.replace(/^\S+ {2}default\/p {2}/, "").trimEnd());
  const { signal } = new AbortController();
  const events = podEvents(
    { verb: "events", selection: { pods: [], namespace: undefined, labels: [] }, follow },
    { client, print, signal },
  );
  if (follow) await assert.rejects(events, /has ended the events/);
  else assert.equal(await events, 0);
  return lines;
}

const past = [
  "sandbox created",
  "container init (attempt 0) created",
  "container init (attempt 0) started",
  "container init (attempt 0) exited with code 0",
  "container web (attempt 0) created",
  "container web (attempt 0) started",
];

test("pod events are printed in the order of their times, also within a millisecond", async () => {
  const lines = await eventsOf(false, []);
  assert.deepEqual(lines, past);
});

test("pod events --follow misses no event while the past is read, and repeats none", async () => {
  const event = (id: string, type: ContainerEventType, at: string): ContainerEventResponse =>
    ({
      ...{ container_id: id, container_event_type: type, created_at: at },
      ...{ pod_sandbox_status: sandbox, containers_statuses: [...containers, container("late", at, at)] },
    }) as unknown as ContainerEventResponse;
  const { CONTAINER_STARTED_EVENT: started } = ContainerEventType;
  const lines = await eventsOf(true, [
    event("web", started, "1000000060"),
    event("late", started, "1000000070"),
  ]);
  assert.equal(lines.length, past.length + 1);
  assert.equal(lines.at(-1), "container late (attempt 0) started");
});
