/** The first application of pods: all of them, or nothing. */
import { orAbort } from "../../lib/abort.js";
import type { PodSandbox } from "../../domain/cri.js";
import { ShimError, isKind, messageOf } from "../../lib/errors.js";
import type { Logger } from "../../lib/log.js";
import { Rollback } from "../../lib/rollback.js";
import type { Manifest, PodKey } from "../manifests/read-manifests.js";
import { deletePod } from "../kubelet/delete-pod.js";
import type { Kubelet } from "../kubelet/kubelet.js";
import type { KubeletDeps } from "../kubelet/kubelet-deps.js";
import { ignoreMissing } from "../kubelet/kill-containers.js";
import { defaultGraceSeconds } from "../pod-config/cri-config.js";
import { observePod } from "../kubelet/observe.js";
import { podDirectory } from "../pod-config/pod-paths.js";
import { nameOf } from "../manifests/manifest.js";

/** An undo may wait for the grace period of the pod's containers, and then for the engine. */
const undoMarginMs = 120_000;

/** Unless it is committed, everything that it has made is undone at its end, after the pods that are under way. */
export class Application implements AsyncDisposable {
  readonly #pods: { readonly key: PodKey; readonly rollback: Rollback }[] = [];
  readonly #changed = new Set<string>();
  readonly #pending = new Set<Promise<void>>();
  readonly #failed = new AbortController();
  #isCommitted = false;
  readonly #listening: Disposable;

  /** What was made stays when `signal` aborts with a timeout: the user does not want to wait any longer. */
  constructor(
    private readonly kubelet: Kubelet,
    private readonly deps: KubeletDeps,
    private readonly options: { readonly keep: boolean },
    private readonly signal: AbortSignal,
  ) {
    this.#listening = kubelet.listen({ onEvent: ({ key }) => this.#changed.add(nameOf(key)) });
  }

  /**
   * Resolves when the pod was applied. Rejects also when another pod fails. After the commit it resolves at once,
   * and what fails is tried again. `before`: all sandboxes of the server, if they were listed just now.
   */
  async apply(manifest: Manifest, before?: readonly PodSandbox[]): Promise<void> {
    if (this.#isCommitted) {
      this.kubelet.apply(manifest, { failFast: false });
      return;
    }
    const work = this.#apply(manifest, AbortSignal.any([this.signal, this.#failed.signal]), before);
    this.#pending.add(work);
    try {
      await work;
    } finally {
      this.#pending.delete(work);
    }
  }

  /** Everything stays. */
  commit(): void {
    this.#isCommitted = true;
    for (const { rollback } of this.#pods) rollback.commit();
    for (const { key } of this.#pods.filter((pod) => !this.#changed.has(nameOf(pod.key)))) {
      const phase = this.kubelet.pod(key)?.status?.phase ?? "Pending";
      this.deps.report(`${nameOf(key)}: already ${phase === "Running" ? "running" : `there (${phase})`}`);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#isCommitted) {
      const { signal } = this;
      const isTimedOut = signal.aborted && isKind(signal.reason, "timeout");
      this.#failed.abort(new ShimError("cancelled", "the first application has failed"));
      await Promise.allSettled(this.#pending);
      await this.#undo({ isTimedOut, isInterrupted: signal.aborted && !isTimedOut });
    }
    this.#listening[Symbol.dispose]();
  }

  async #apply(
    manifest: Manifest,
    signal: AbortSignal,
    before: readonly PodSandbox[] | undefined,
  ): Promise<void> {
    const { key } = manifest;
    signal.throwIfAborted();
    const rollback = await undoOf(manifest, this.deps, signal, before);
    signal.throwIfAborted();
    this.#pods.push({ key, rollback });
    try {
      await orAbort(this.kubelet.apply(manifest, { failFast: true }).applied, signal);
    } catch (error) {
      if (signal.aborted) throw ShimError.from(signal.reason);
      const { kind, fields } = ShimError.from(error, "unknown");
      const message = `play pod "${nameOf(key)}" (${manifest.source}): ${messageOf(error)}`;
      throw new ShimError(kind, message, fields, { cause: error });
    }
  }

  async #undo({
    isTimedOut,
    isInterrupted,
  }: Readonly<Record<"isTimedOut" | "isInterrupted", boolean>>): Promise<void> {
    // Another play has them now.
    for (const { key, rollback } of this.#pods) if (await this.kubelet.pod(key)?.isLost()) rollback.commit();
    const why = isInterrupted ? "interrupted" : "failed";
    const keep = this.options.keep || isTimedOut;
    await Promise.all(this.#pods.map(({ key }) => this.kubelet.forget(key)));
    if (this.#changed.size > 0 && !isTimedOut)
      this.deps.report(
        keep ? `${why}; what was made is kept (--keep)` : `${why}; removing what this run has made`,
      );
    if (keep) for (const { rollback } of this.#pods) rollback.commit();
    await Promise.all(this.#pods.map(({ rollback }) => rollback[Symbol.asyncDispose]()));
  }
}

/** Remembers what is there of a pod, so that the undo removes only what comes later. */
async function undoOf(
  manifest: Manifest,
  deps: KubeletDeps,
  signal: AbortSignal,
  listed: readonly PodSandbox[] | undefined,
): Promise<Rollback> {
  const { key, pod } = manifest;
  const graceSeconds = pod.spec.terminationGracePeriodSeconds ?? defaultGraceSeconds;
  const rollback = new Rollback(undoLog(deps.report), graceSeconds * 1000 + undoMarginMs);
  const before = await observePod(deps, key, signal, listed);
  const hadFiles = await deps.files.exists(podDirectory(deps.directories, key));
  if (before.sandboxes.some(({ playHash }) => playHash === undefined)) return rollback;
  const silent = { ...deps, event: () => undefined };
  if (before.sandboxes.length === 0) {
    rollback.defer(`remove pod "${nameOf(key)}"`, (undoSignal) =>
      deletePod(key, silent, undoSignal, { keepFiles: hadFiles }),
    );
    return rollback;
  }
  const known = new Set([...before.sandboxes, ...before.containers].map(({ id }) => id));
  rollback.defer(`remove new containers of pod "${nameOf(key)}"`, async (undoSignal) => {
    const { sandboxes, containers } = await observePod(deps, key, undoSignal);
    // It was deleted and made again: nothing of the earlier one is left.
    if (!sandboxes.some(({ id }) => known.has(id))) {
      await deletePod(key, silent, undoSignal);
      return;
    }
    for (const { id, state } of containers.filter((container) => !known.has(container.id))) {
      if (state === "running") await ignoreMissing(deps.client.stopContainer(id, graceSeconds, undoSignal));
      await ignoreMissing(deps.client.removeContainer(id, undoSignal));
    }
    for (const { id } of sandboxes.filter((sandbox) => !known.has(sandbox.id))) {
      await ignoreMissing(deps.client.stopPodSandbox(id, undoSignal));
      await ignoreMissing(deps.client.removePodSandbox(id, undoSignal));
    }
  });
  return rollback;
}

/** The log of the rollback, as lines for the user. */
function undoLog(report: (line: string) => void): Pick<Logger, "debug" | "error"> {
  return {
    debug: () => undefined,
    error: (...args: unknown[]) => {
      const fields: unknown = args[0];
      const { step, err } = (typeof fields === "object" ? fields : {}) as {
        readonly step?: string;
        readonly err?: string;
      };
      report(`cannot ${step ?? "undo a step"}: ${err ?? ""}; remove it with "play --down"`);
    },
  };
}
