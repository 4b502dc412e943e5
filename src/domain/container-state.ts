/** Docker's state of a container as the state, reason and times of the CRI. */
import { ContainerState } from "./cri.js";
import type { Snapshot } from "./snapshot.js";

/**
 * One mapping for lists and statuses alike:
 *
 *     created, exit code 0          CREATED
 *     created, exit code not 0      EXITED    Docker's way of saying that the start failed
 *     running, paused               RUNNING
 *     exited, dead                  EXITED
 *     restarting, removing          UNKNOWN
 */
export function containerStateOf(snapshot: {
  readonly state: Pick<Snapshot["state"], "status" | "exitCode">;
}): ContainerState {
  switch (snapshot.state.status) {
    case "created":
      return snapshot.state.exitCode === 0
        ? ContainerState.CONTAINER_CREATED
        : ContainerState.CONTAINER_EXITED;
    case "running":
    case "paused":
      return ContainerState.CONTAINER_RUNNING;
    case "exited":
    case "dead":
      return ContainerState.CONTAINER_EXITED;
    case "restarting":
    case "removing":
      return ContainerState.CONTAINER_UNKNOWN;
  }
}

/** 128 and the number of the signal. */
const sigkillExitCode = 137;

/** Why and when a container ended, with reasons that kubelets know. Empty values while it has not ended. */
export function exitOf(snapshot: Snapshot): {
  readonly reason: string;
  readonly message: string;
  readonly startedAt: bigint;
  readonly finishedAt: bigint;
} {
  const { state } = snapshot;
  if (state.running || state.status === "restarting")
    return { reason: "", message: "", startedAt: state.started, finishedAt: 0n };
  if (state.finished !== 0n) {
    // Docker's flag is also set when a child was killed long before the end. The kernel kills with SIGKILL.
    const isKilledForMemory = state.oomKilled && state.exitCode === sigkillExitCode;
    const reason = isKilledForMemory ? "OOMKilled" : state.exitCode === 0 ? "Completed" : "Error";
    return { reason, message: state.error, startedAt: state.started, finishedAt: state.finished };
  }
  if (state.exitCode !== 0) {
    // Never started: Docker keeps both times at zero, and kubelets want an ended container to have them.
    const { created } = snapshot;
    return { reason: "ContainerCannotRun", message: state.error, startedAt: created, finishedAt: created };
  }
  return { reason: "", message: state.error, startedAt: 0n, finishedAt: 0n };
}
