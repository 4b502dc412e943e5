/** The CRI events of a container between two snapshots. */
import { ContainerEventType } from "./cri.js";
import type { Snapshot } from "./snapshot.js";

const {
  CONTAINER_CREATED_EVENT: created,
  CONTAINER_STARTED_EVENT: started,
  CONTAINER_STOPPED_EVENT: stopped,
  CONTAINER_DELETED_EVENT: deleted,
} = ContainerEventType;

/** The parts of a snapshot that tell how far a container is in its life. */
export type LifeState = {
  readonly state: Pick<Snapshot["state"], "status" | "exitCode" | "started">;
};

/**
 * The events between `before` and `after` (undefined: not there), in order. Derived from the two states and
 * not from what the engine reported in between, so that nothing is missing when reports come together, late
 * or never: a container that is first seen after its end was created, started and stopped. One whose start
 * failed was never started, but is stopped.
 */
export function transitions(
  before: LifeState | undefined,
  after: LifeState | undefined,
): readonly ContainerEventType[] {
  const from = before === undefined ? "absent" : stageOf(before);
  if (after === undefined) {
    if (from === "absent") return [];
    return from === "running" ? [stopped, deleted] : [deleted];
  }
  const events: ContainerEventType[] = from === "absent" ? [created] : [];
  const to = stageOf(after);
  const startedAnew = after.state.started !== 0n && after.state.started !== before?.state.started;
  if (startedAnew) {
    if (from === "running") events.push(stopped);
    events.push(started);
    if (to === "ended") events.push(stopped);
  } else if (to === "ended" && from !== "ended") {
    events.push(stopped);
  } else if (to === "running" && from !== "running") {
    // Running without a time of its start: engines should not report that.
    events.push(started);
  }
  return events;
}

/** A container whose start failed is "created" with an exit code; "restarting" is between two runs. */
function stageOf({ state }: LifeState): "created" | "running" | "ended" {
  switch (state.status) {
    case "created":
      return state.exitCode === 0 ? "created" : "ended";
    case "running":
    case "paused":
      return "running";
    case "restarting":
    case "exited":
    case "dead":
      return "ended";
    case "removing":
      // Docker stops a container before it removes it.
      return state.started === 0n ? "created" : "ended";
  }
}
