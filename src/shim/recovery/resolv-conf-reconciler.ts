import { tries } from "../../domain/reach.js";
import { ShimError, messageOf } from "../../lib/errors.js";
import { Semaphore } from "../../lib/sync/semaphore.js";
import type { Nanoseconds } from "../../lib/time.js";
import type { Snapshot } from "../../domain/snapshot.js";
import type { HostSource } from "../ports/host.js";
import type { Records } from "../state/records.js";
import type { Logger } from "../../lib/log.js";

interface Deps {
  readonly node: HostSource;
  readonly records: Pick<Records, "pods">;
  readonly log: Logger;
}

/** Files at the same time: each takes a thread. */
const concurrentWrites = 2;

/**
 * Writes the resolv.conf of the pod again after each start of a sandbox's container and of the engine: some
 * engines write their own file then. Only files that differ are written.
 */
export class ResolvConfReconciler {
  /** Sandbox id → the start after which its file was compared. */
  readonly #done = new Map<string, Nanoseconds>();
  readonly #running = new Set<Promise<void>>();
  readonly #writes = new Semaphore(concurrentWrites);
  readonly #stop = new AbortController();

  constructor(private readonly deps: Deps) {}

  /** Called before all containers are inspected again: an engine that was restarted may have written all files. */
  engineConnected(): void {
    this.#done.clear();
  }

  /** Called for every inspected container, and with undefined for a removed one. */
  observe(id: string, container: Snapshot | undefined): void {
    if (container === undefined) {
      this.#done.delete(id);
      return;
    }
    const { started, running } = container.state;
    const record = this.deps.records.pods.get(id);
    if (record?.resolvConf === undefined || record.phase === "stopped" || !running) return;
    if (this.#done.get(id) === started || this.#stop.signal.aborted) return;
    this.#done.set(id, started);
    // RunPodSandbox writes the file itself after this start.
    if (record.phase === "creating" || !tries(this.deps.node.host().reach, "files")) return;
    this.#inBackground(container, record.resolvConf);
  }

  async stop(): Promise<void> {
    this.#stop.abort(new ShimError("cancelled", "the shim is stopping"));
    await Promise.all(this.#running);
  }

  #inBackground(sandbox: Snapshot, content: string): void {
    const { node, records, log } = this.deps;
    const { id: sandboxId } = sandbox;
    const { signal } = this.#stop;
    const work = this.#writes
      .run(signal, async () => {
        // The sandbox may have been stopped or removed while it waited.
        if (records.pods.get(sandboxId)?.phase !== "ready") return;
        if (await node.host().writeResolvConf(sandbox, content, signal))
          log.info({ sandboxId }, "rewrote resolv.conf of a sandbox, it was not the pod's");
      })
      .catch((error: unknown) => {
        if (signal.aborted || records.pods.get(sandboxId)?.phase !== "ready") return;
        log.error({ sandboxId, err: messageOf(error) }, "cannot rewrite resolv.conf of a sandbox");
      })
      .finally(() => this.#running.delete(work));
    this.#running.add(work);
  }
}
