/** Tells which pods have changed: by the events of the CRI server, or by a list each second. */
import { isKind, messageOf } from "../../shim/lib/errors.js";
import { podNameLabel, podNamespaceLabel } from "../../shim/domain/labels.js";
import type { CriClient } from "../client.js";
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
      await followEvents(deps, signal);
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

async function followEvents(deps: WatchDeps, signal: AbortSignal): Promise<void> {
  // Events before the server has begun to send are missed.
  const cancel = deps.clock.after(relistMs, () => {
    deps.onChange(undefined);
  });
  try {
    for await (const { pod_sandbox_status } of deps.client.containerEvents(signal)) {
      const metadata = pod_sandbox_status?.metadata;
      deps.onChange(metadata ? `${metadata.namespace}/${metadata.name}` : undefined);
    }
  } finally {
    cancel();
  }
}

async function relist(deps: WatchDeps, signal: AbortSignal): Promise<void> {
  let before = new Map<string, string>();
  while (!signal.aborted) {
    try {
      const now = await statesByPod(deps, signal);
      for (const pod of new Set([...before.keys(), ...now.keys()]))
        if (before.get(pod) !== now.get(pod)) deps.onChange(pod);
      before = now;
    } catch {
      // The loops of the pods report a server that does not answer.
    }
    await pause(relistMs, deps.clock, signal);
  }
}

/** All sandboxes and containers of each pod with their states, as text. */
async function statesByPod({ client }: WatchDeps, signal: AbortSignal): Promise<Map<string, string>> {
  const [sandboxes, containers] = await Promise.all([
    client.listPodSandboxes({}, signal),
    client.listContainers("", signal),
  ]);
  const states = new Map<string, string>();
  for (const { id, state, labels } of [...sandboxes, ...containers]) {
    const pod = `${labels[podNamespaceLabel] ?? ""}/${labels[podNameLabel] ?? ""}`;
    states.set(pod, `${states.get(pod) ?? ""} ${id}=${state}`);
  }
  return states;
}
