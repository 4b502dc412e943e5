import { ShimError, messageOf } from "../lib/errors.js";
import { Semaphore } from "../lib/sync/semaphore.js";
import type { Nanoseconds } from "../lib/time.js";
import type { Snapshot } from "../domain/snapshot.js";
import type { HostAccess } from "../ports/host.js";
import type { PodRecords } from "../state/pod-records.js";
import type { Logger } from "../lib/log.js";

interface Deps {
  readonly host: () => HostAccess;
  readonly podRecords: PodRecords;
  readonly log: Logger;
}

/** Files at once: each takes a thread. */
const placesAtOnce = 2;

/**
 * Sees to it that a sandbox has the resolv.conf that its pod asked for after each start of its container,
 * also one that nobody asked this program for, and after each start of the engine: some engines write their
 * own one then. Only files that differ are written.
 */
export class ResolvConfReconciler {
  /** Sandbox id → the start after which its file was looked at. */
  readonly #done = new Map<string, Nanoseconds>();
  readonly #running = new Set<Promise<void>>();
  readonly #gate = new Semaphore(placesAtOnce);
  readonly #stop = new AbortController();

  constructor(private readonly deps: Deps) {}

  /**
   * Before all containers are inspected anew: an engine that was started again may have written the files of
   * all.
   */
  engineConnected(): void {
    this.#done.clear();
  }

  /** Told of every container that was inspected or is gone. */
  observe(id: string, container: Snapshot | undefined): void {
    if (container === undefined) {
      this.#done.delete(id);
      return;
    }
    const { started, running } = container.state;
    const record = this.deps.podRecords.get(id);
    if (record?.resolvConf === undefined || record.phase === "stopped" || !running) return;
    if (this.#done.get(id) === started || this.#stop.signal.aborted) return;
    this.#done.set(id, started);
    // RunPodSandbox writes it itself, after this start.
    if (record.phase === "creating" || !this.deps.host().local) return;
    this.#inBackground(container, record.resolvConf);
  }

  async stop(): Promise<void> {
    this.#stop.abort(new ShimError("cancelled", "the shim is stopping"));
    await Promise.all(this.#running);
  }

  #inBackground(sandbox: Snapshot, content: string): void {
    const { host, podRecords, log } = this.deps;
    const { id: sandboxId } = sandbox;
    const { signal } = this.#stop;
    const work = this.#gate
      .run(signal, async () => {
        // It may have been stopped or removed while others were written.
        if (podRecords.get(sandboxId)?.phase !== "ready") return;
        if (await host().writeResolvConf(sandbox, content, signal))
          log.info({ sandboxId }, "wrote resolv.conf of a sandbox again: it was not the pod's");
      })
      .catch((error: unknown) => {
        if (signal.aborted || podRecords.get(sandboxId)?.phase !== "ready") return;
        log.error({ sandboxId, err: messageOf(error) }, "cannot write resolv.conf of a sandbox again");
      })
      .finally(() => this.#running.delete(work));
    this.#running.add(work);
  }
}
