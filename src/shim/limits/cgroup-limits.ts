import { withDeadline } from "../lib/abort.js";
import { messageOf, ShimError, isKind } from "../lib/errors.js";
import type { Nanoseconds } from "../lib/time.js";
import type { Snapshot } from "../domain/snapshot.js";
import type { HostAccess, CgroupSettings } from "../ports/host.js";
import type { ReadModel } from "../state/read-model.js";
import type { StateSync } from "../state/state-sync.js";
import type { ContainerRecords } from "../state/container-records.js";
import type { KeyedMutex } from "../lib/sync/keyed-mutex.js";
import type { Logger } from "../lib/log.js";
import type { Call } from "../lib/call.js";
import { needsCgroup } from "../plan/cgroups.js";

interface Deps {
  readonly host: () => HostAccess;
  readonly model: ReadModel;
  readonly sync: Pick<StateSync, "refresh">;
  readonly containerRecords: ContainerRecords;
  readonly containerLocks: KeyedMutex;
  readonly log: Logger;
  /** Milliseconds for the limits of one container, from when its lock is free. */
  readonly timeoutMs: number;
}

/** Limits of running containers that Docker has no field for. */
export interface ContainerLimits {
  /** Under the lock of the container: writes what is on record. Throws when that fails, unless the container has ended. */
  apply(container: Snapshot, signal: AbortSignal): Promise<void>;
}

/**
 * Sees to it that each start of a container gets the limits that Docker cannot set, also one that StartContainer did not
 * live to complete, or that somebody else made. What runs already when this program starts gets them once more: whether
 * they were written before is nowhere on record.
 */
export class LimitReconciler implements ContainerLimits {
  /** Container id → the start that has its limits, or for which they failed. */
  readonly #done = new Map<string, Nanoseconds>();
  /** Containers whose lock is waited for. */
  readonly #waiting = new Set<string>();
  readonly #running = new Set<Promise<void>>();
  readonly #stop = new AbortController();

  constructor(private readonly deps: Deps) {}

  async apply(container: Snapshot, signal: AbortSignal): Promise<void> {
    const { id, state } = container;
    const record = this.deps.containerRecords.get(id);
    if (record === undefined || !state.running) return;
    this.#done.set(id, state.started);
    const { log } = this.deps;
    await applyCgroupLimits(container, record.cgroup, this.deps, { log, signal });
  }

  /** Told of every container that was inspected or is gone. */
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
      this.deps.containerRecords.get(id) !== undefined
    );
  }

  /**
   * Unlike StartContainer it lets one run on whose limits fail: it may have run well for a long time. The lock may be
   * held for as long as a checkpoint takes, and nobody may inspect the container after that: it is waited for until it is
   * free. A container that has ended or is gone by then gets nothing.
   */
  #inBackground(id: string): void {
    const { model, containerLocks, log, timeoutMs } = this.deps;
    this.#waiting.add(id);
    const work = containerLocks
      .run(id, this.#stop.signal, async () => {
        this.#waiting.delete(id);
        const container = model.snapshot(id);
        if (container === undefined || !this.#lacks(container)) return;
        await withDeadline(this.#stop.signal, timeoutMs, "apply its cgroup limits", (signal) =>
          this.apply(container, signal),
        );
      })
      .catch((error: unknown) => {
        if (this.#stop.signal.aborted) return;
        log.error(
          { containerId: id, err: messageOf(error) },
          "a running container is without its cgroup limits",
        );
      })
      .finally(() => this.#running.delete(work));
    this.#running.add(work);
  }
}

/**
 * Writes limits that Docker cannot express into the cgroup of a running container. A container that has ended in the
 * meantime needs none, and where no cgroup is in reach those that kubelets send for every container are done without.
 */
export async function applyCgroupLimits(
  container: Snapshot,
  settings: CgroupSettings,
  { host, sync }: { readonly host: () => HostAccess; readonly sync: Pick<StateSync, "refresh"> },
  call: Pick<Call, "signal" | "log">,
): Promise<void> {
  try {
    await host().applyCgroup(container, settings, call.signal);
  } catch (error) {
    if (isKind(error, "unsupported") && !needsCgroup(settings)) {
      call.log.debug({ containerId: container.id, err: messageOf(error) }, "cgroup limits not applied");
      return;
    }
    const now = await sync.refresh(container.id).catch(() => container);
    if (now?.state.running === true) throw error;
  }
}
