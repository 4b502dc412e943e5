/** Which pods have changed, by events or by a list each second. What is created changes none. */
import { isKind, messageOf } from "../../lib/errors.js";
import { podNameLabel, podNamespaceLabel } from "../../domain/labels.js";
import { type ContainerEventResponse, ContainerEventType, ContainerState } from "../../domain/cri.js";
import type { CriClient } from "../cri/client.js";
import { type Clock, pause } from "./clock.js";

export interface WatchDeps {
  readonly client: Pick<CriClient, "containerEvents" | "listPodSandboxes" | "listContainers">;
  readonly clock: Clock;
  /** `namespace/name`; undefined when any pod may have changed. */
  readonly onChange: (pod: string | undefined) => void;
  readonly report: (line: string) => void;
}

/** The kubelet's interval between two lists. */
const relistMs = 1000;

/** Ends with `signal`. Never rejects. */
export async function watchPods(deps: WatchDeps, signal: AbortSignal): Promise<void> {
  let isLost = false;
  for (;;) {
    try {
      const hasEvents = await followEvents(deps, signal);
      // So CRI-O answers when its events are switched off.
      if (!hasEvents) {
        await relist(deps, signal);
        return;
      }
    } catch (error) {
      if (signal.aborted) return;
      if (isKind(error, "unsupported")) {
        await relist(deps, signal);
        return;
      }
      if (!isLost) deps.report(`the events of the CRI server have ended, trying again: ${messageOf(error)}`);
      isLost = true;
    }
    await pause(relistMs, deps.clock, signal);
    if (signal.aborted) return;
    deps.onChange(undefined);
  }
}

/** Answers whether there was any until the server has ended them. */
async function followEvents(deps: WatchDeps, signal: AbortSignal): Promise<boolean> {
  let hasEvents = false;
  // Events before the server has begun to send are missed.
  const cancel = deps.clock.after(relistMs, () => deps.onChange(undefined));
  try {
    for await (const event of deps.client.containerEvents(signal)) {
      hasEvents = true;
      if (changesNothing(event)) continue;
      const metadata = event.pod_sandbox_status?.metadata;
      deps.onChange(metadata ? `${metadata.namespace}/${metadata.name}` : undefined);
    }
    return hasEvents;
  } finally {
    cancel();
  }
}

/** A container that ran is stopped before it is removed. */
function changesNothing(event: ContainerEventResponse): boolean {
  const { container_event_type: type, container_id: id, pod_sandbox_status: sandbox } = event;
  if (type === ContainerEventType.CONTAINER_CREATED_EVENT) return true;
  return type === ContainerEventType.CONTAINER_DELETED_EVENT && sandbox !== null && sandbox.id !== id;
}

async function relist(deps: WatchDeps, signal: AbortSignal): Promise<void> {
  let before: States = new Map();
  while (!signal.aborted) {
    try {
      const now = await statesById(deps, signal);
      for (const pod of changedPods(before, now)) deps.onChange(pod);
      before = now;
    } catch {
      // The loops of the pods report a server that does not answer.
    }
    await pause(relistMs, deps.clock, signal);
  }
}

interface Listed {
  readonly pod: string;
  readonly state: number;
  /** Its removal changes the pod. */
  readonly matters: boolean;
}
type States = ReadonlyMap<string, Listed>;

function changedPods(before: States, now: States): ReadonlySet<string> {
  const changed = [...now].filter(([id, { state }]) => before.get(id)?.state !== state);
  const gone = [...before].filter(([id, { matters }]) => matters && !now.has(id));
  return new Set([...changed, ...gone].map(([, { pod }]) => pod));
}

/** The states of all sandboxes, and of the containers that were started. */
async function statesById({ client }: WatchDeps, signal: AbortSignal): Promise<States> {
  const [sandboxes, containers] = await Promise.all([
    client.listPodSandboxes({}, signal),
    client.listContainers("", signal),
  ]);
  const podOf = ({ labels }: { readonly labels: Readonly<Record<string, string>> }): string =>
    `${labels[podNamespaceLabel] ?? ""}/${labels[podNameLabel] ?? ""}`;
  const started = containers.filter(({ state }) => state !== ContainerState.CONTAINER_CREATED);
  return new Map([
    ...sandboxes.map((sandbox): [string, Listed] => {
      const { id, state } = sandbox;
      return [id, { pod: podOf(sandbox), state, matters: true }];
    }),
    ...started.map((container): [string, Listed] => {
      const { id, state } = container;
      const matters = state !== ContainerState.CONTAINER_EXITED;
      return [id, { pod: podOf(container), state, matters }];
    }),
  ]);
}
