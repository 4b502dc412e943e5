import { withDeadline } from "../lib/abort.js";
import { messageOf, ShimError, isKind } from "../lib/errors.js";
import type { Nanoseconds } from "../lib/time.js";
import type { Snapshot } from "../domain/snapshot.js";
import type { CgroupSettings, HostSource } from "../ports/host.js";
import type { EngineState } from "../state/engine-state.js";
import type { Records } from "../state/records.js";
import type { KeyedMutex } from "../lib/sync/keyed-mutex.js";
import type { Logger } from "../lib/log.js";
import type { Call } from "../lib/call.js";
import { splitByNeed } from "../plan/cgroups.js";

interface Deps {
  readonly state: Pick<EngineState, "model" | "sync">;
  readonly records: Pick<Records, "containers">;
  readonly node: HostSource;
  readonly locks: { readonly containers: KeyedMutex };
  readonly log: Logger;
  /** Milliseconds for the limits of one container, not counting the wait for its lock. */
  readonly timeoutMs: number;
}

/** Limits that the Engine API has no field for. */
export interface ContainerLimits {
  /**
   * Writes the recorded limits of a running container into its cgroup. Throws when that fails, unless the
   * container has ended. The caller holds the container's lock.
   */
  apply(container: Snapshot, signal: AbortSignal): Promise<void>;
}

/**
 * Applies the limits that Docker cannot set after each start of a container, also after a start that
 * StartContainer could not complete or that another program made. Containers that run when this program
 * starts get them once more: no record says whether they have them.
 */
export class LimitReconciler implements ContainerLimits {
  /** Container id → the start for which the limits were applied or failed. */
  readonly #done = new Map<string, Nanoseconds>();
  /** Containers whose lock is awaited. */
  readonly #waiting = new Set<string>();
  readonly #running = new Set<Promise<void>>();
  readonly #stop = new AbortController();

  constructor(private readonly deps: Deps) {}

  async apply(container: Snapshot, signal: AbortSignal): Promise<void> {
    const { id, state } = container;
    const record = this.deps.records.containers.get(id);
    if (record === undefined || !state.running) return;
    this.#done.set(id, state.started);
    const { log } = this.deps;
    await applyCgroupLimits(container, record.cgroup, this.deps, { log, signal });
  }

  /** Called for every inspected container, and with undefined for a removed one. */
  observe(id: string, container: Snapshot | undefined): void {
    if (container === undefined) this.#done.delete(id);
    else if (!this.#stop.signal.aborted && !this.#waiting.has(id) && this.#lacks(container))
      this.#inBackground(id);
  }

  async stop(): Promise<void> {
    this.#stop.abort(new ShimError("cancelled", "the shim is stopping"));
    await Promise.all(this.#running);
  }

  #lacks({ id, state }: Snapshot): boolean {
    return (
      state.running &&
      this.#done.get(id) !== state.started &&
      this.deps.records.containers.get(id) !== undefined
    );
  }

  /**
   * Unlike StartContainer this does not stop a container when the limits fail: it may have run well for a
   * long time. Waits for the lock without a limit: a checkpoint may hold it for long, and there may be no
   * later inspect to try again.
   */
  #inBackground(id: string): void {
    const { state, locks, log, timeoutMs } = this.deps;
    this.#waiting.add(id);
    const work = locks.containers
      .run(id, this.#stop.signal, async () => {
        this.#waiting.delete(id);
        const container = state.model.snapshot(id);
        if (container === undefined || !this.#lacks(container)) return;
        await withDeadline(this.#stop.signal, timeoutMs, "apply cgroup limits", (signal) =>
          this.apply(container, signal),
        );
      })
      .catch((error: unknown) => {
        if (this.#stop.signal.aborted) return;
        log.error(
          { containerId: id, err: messageOf(error) },
          "cannot apply the cgroup limits of a running container",
        );
      })
      .finally(() => this.#running.delete(work));
    this.#running.add(work);
  }
}

/**
 * Writes limits that the Engine API has no field for into the cgroup of a running container: all that can be
 * written, then the first error. A container that has ended meanwhile needs none. Limits that kubelets send
 * for every container are skipped where they cannot be set.
 */
export async function applyCgroupLimits(
  container: Snapshot,
  settings: CgroupSettings,
  { node, state }: { readonly node: HostSource; readonly state: Pick<EngineState, "sync"> },
  call: Pick<Call, "signal" | "log">,
): Promise<void> {
  const { needed, others } = splitByNeed(settings);
  const failures: unknown[] = [];
  for (const part of [needed, others]) {
    if (isEmpty(part)) continue;
    try {
      await node.host().applyCgroup(container, part, call.signal);
    } catch (error) {
      if (part === needed || !isKind(error, "unsupported")) failures.push(error);
      else call.log.debug({ containerId: container.id, err: messageOf(error) }, "cgroup limits not applied");
    }
  }
  if (failures.length === 0) return;
  const now = await state.sync.refresh(container.id).catch(() => container);
  if (now?.state.running === true) throw failures[0];
}

function isEmpty({ unified, hugepages }: CgroupSettings): boolean {
  return Object.keys(unified).length === 0 && hugepages.length === 0;
}
