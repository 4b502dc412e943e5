/** Checkpoints that a killed process had begun: their containers may be frozen, and nobody waits for the archive. */
import { messageOf } from "../../lib/errors.js";
import { isAlive } from "../../lib/linux/process-mark.js";
import type { Logger } from "../../lib/log.js";
import type { KeyedMutex } from "../../lib/sync/keyed-mutex.js";
import type { HostSource } from "../ports/host.js";
import type { EngineState } from "../state/engine-state.js";
import type { Records } from "../state/records.js";

export interface EndCheckpointsDeps {
  readonly state: Pick<EngineState, "model">;
  readonly records: Pick<Records, "containers">;
  readonly node: HostSource;
  readonly locks: { readonly containers: KeyedMutex };
  readonly log: Pick<Logger, "info" | "warn">;
}

/** Those of a process that lives are its own. What cannot be ended is tried again by the next call. */
export async function endCheckpoints(
  { state: { model }, records: { containers }, node, locks, log }: EndCheckpointsDeps,
  signal: AbortSignal,
): Promise<void> {
  for (const { containerId, checkpoint } of [...containers.all()]) {
    if (checkpoint === undefined || (await isAlive(checkpoint.server))) continue;
    const { location } = checkpoint;
    try {
      await locks.containers.run(containerId, signal, async () => {
        const snapshot = model.snapshot(containerId);
        // What Docker has paused stays so.
        const runs = snapshot?.state.status === "running";
        await node.host().endCheckpoint(containerId, location, runs ? snapshot : undefined);
        await containers.noteCheckpoint(containerId, undefined);
      });
      log.info({ containerId, path: location }, "ended the checkpoint of a killed process");
    } catch (error) {
      signal.throwIfAborted();
      log.warn(
        { containerId, path: location, err: messageOf(error) },
        "cannot end the checkpoint of a killed process, its container may be frozen",
      );
    }
  }
}
