/** The loop of one pod: a turn, and a wait for the next one. */
import { ShimError, isKind, messageOf } from "../../lib/errors.js";
import { linkAbort } from "../../lib/abort.js";
import type { Semaphore } from "../../lib/sync/semaphore.js";
import type { Manifest } from "../manifests/read-manifests.js";
import type { ObservedPod } from "../pod-rules/observed-pod.js";
import type { PodStatus } from "../pod-rules/status-types.js";
import { deletePod } from "./delete-pod.js";
import type { PodEvent } from "./events.js";
import type { KubeletDeps } from "./kubelet-deps.js";
import { PodApplication } from "./pod-application.js";
import type { PodLoss } from "./pod-owner.js";
import { PodTurns, type Readiness, type TurnDeps, errorMs } from "./pod-turns.js";

export interface WorkerDeps extends KubeletDeps {
  readonly onEvent: (event: PodEvent) => void;
  readonly onStatus: (manifest: Manifest, status: PodStatus, observed: ObservedPod) => void;
  /** Whether an error before the first application has succeeded ends the loop. */
  readonly failFast: boolean;
  /** Limits how many pods act at the same time. */
  readonly turns: Semaphore;
}

const unavailableMs = 1000;

/** Reason of the event after which the server answers again. */
export const serverBack = "ServerBack";

export class PodWorker {
  readonly #stop = new AbortController();
  readonly #application: PodApplication;
  readonly #turns: PodTurns;
  readonly #turnDeps: TurnDeps;
  #wakeUp: (() => void) | undefined;
  #isWoken = false;
  #isServerLost = false;
  #turnsInARow = 0;
  #lastEvent: PodEvent | undefined;
  #deletedAt: number | undefined;
  #running: Promise<void> | undefined;
  #manifest: Manifest;

  constructor(
    manifest: Manifest,
    private readonly deps: WorkerDeps,
  ) {
    this.#manifest = manifest;
    this.#application = new PodApplication(deps);
    this.#turnDeps = {
      ...deps,
      event: (type, reason, message, container, startedAt) => {
        const at = deps.clock.now();
        const subject = container === undefined ? {} : { container };
        const step = startedAt === undefined ? {} : { startedAt };
        this.#lastEvent = { key: this.#manifest.key, at, type, reason, message, ...subject, ...step };
        deps.onEvent(this.#lastEvent);
      },
      onLoss: (error) => this.#stop.abort(error),
      wake: () => this.wake(),
    };
    this.#turns = new PodTurns(this.#turnDeps);
  }

  get manifest(): Manifest {
    return this.#manifest;
  }

  get status(): PodStatus | undefined {
    return this.#turns.status;
  }

  /** Of the present manifest; undefined before the pod was looked at. */
  get readiness(): Readiness | undefined {
    const { readiness } = this.#turns;
    return readiness?.hash === this.#manifest.hash ? readiness : undefined;
  }

  get lastEvent(): PodEvent | undefined {
    return this.#lastEvent;
  }

  /** When `remove` was called, in milliseconds since 1970. */
  get deletedAt(): number | undefined {
    return this.#deletedAt;
  }

  /** Resolves when all containers were started, or fail by themselves. Rejects with the first error before. */
  get applied(): Promise<void> {
    return this.#application.outcome;
  }

  /** The loop has ended, by an error or by `stop`. */
  get isOver(): boolean {
    return this.#application.hasFailed || this.#stop.signal.aborted;
  }

  /** Another play keeps the pod, or has removed it; the loop has noticed that. */
  get loss(): PodLoss | undefined {
    return this.#turns.loss;
  }

  /** The same, also when the loop has not noticed it yet, because nothing of the pod has changed. */
  async isLost(): Promise<boolean> {
    return (await this.#turns.currentLoss(this.#manifest).catch(() => undefined)) !== undefined;
  }

  start(): void {
    this.#running ??= this.#run();
  }

  /** Looks at the pod now. */
  wake(): void {
    this.#isWoken = true;
    this.#wakeUp?.();
  }

  /** Changes what is wanted. The pod is given to this play again: it takes it also from another one. */
  update(manifest: Manifest): void {
    this.#turns.take();
    this.wake();
    if (manifest.hash === this.#manifest.hash) return;
    this.#application.renew();
    this.#turns.change(this.#manifest, manifest);
    this.#manifest = manifest;
  }

  /** Ends the loop. The pod's containers stay as they are. */
  async stop(): Promise<void> {
    this.#stop.abort(new ShimError("cancelled", "the pod is no longer watched"));
    this.#turns.close();
    await this.#running;
  }

  /** Ends the loop and deletes the pod. */
  async remove(signal: AbortSignal, graceSeconds?: number): Promise<void> {
    this.#deletedAt ??= this.deps.clock.now();
    this.#turns.stopKilling();
    this.#stop.abort(new ShimError("cancelled", "the pod is being removed"));
    await this.#running;
    await deletePod(this.#manifest.key, this.#turnDeps, signal, { graceSeconds });
    this.#turns.close();
  }

  /** Never rejects. */
  async #run(): Promise<void> {
    const { signal } = this.#stop;
    for (;;) {
      this.#isWoken = false;
      let nextAt: number;
      try {
        nextAt = await this.deps.turns.run(signal, () => this.#turn(signal));
        this.#checkProgress(nextAt);
        if (this.#isServerLost) this.#event("Normal", serverBack, "the CRI server and its engine are back");
        this.#isServerLost = false;
      } catch (error) {
        if (signal.aborted || this.#application.hasFailed || this.#application.fails(error)) break;
        nextAt = this.deps.clock.now() + this.#retryAfter(error);
      }
      await this.#wait(nextAt);
      if (signal.aborted) break;
    }
    this.#turns.close();
    this.#application.end(ShimError.from(signal.reason));
  }

  async #turn(signal: AbortSignal): Promise<number> {
    const { nextAt, outcome } = await this.#turns.run(this.#manifest, signal);
    if (outcome !== undefined) await this.#application.check(outcome, this.deps);
    return nextAt;
  }

  /** Each turn that acts must show in the next one; else the loop would never rest. */
  #checkProgress(nextAt: number): void {
    const { containers, initContainers = [], ephemeralContainers = [] } = this.#manifest.pod.spec;
    this.#turnsInARow = nextAt === 0 ? this.#turnsInARow + 1 : 0;
    if (this.#turnsInARow <= 5 + 2 * (containers.length + initContainers.length + ephemeralContainers.length))
      return;
    this.#turnsInARow = 0;
    throw new ShimError("unknown", "the calls succeed, but the CRI server does not show their results");
  }

  #retryAfter(error: unknown): number {
    if (!isKind(error, "unavailable", "timeout")) {
      this.#event("Warning", "FailedSync", messageOf(error));
      return errorMs;
    }
    const what = "the CRI server or its engine does not answer, retrying";
    if (!this.#isServerLost) this.#event("Warning", "ServerLost", `${what}: ${messageOf(error)}`);
    this.#isServerLost = true;
    return unavailableMs;
  }

  async #wait(nextAt: number): Promise<void> {
    const { clock } = this.deps;
    await new Promise<void>((resolve) => {
      if (this.#isWoken || nextAt <= clock.now()) {
        resolve();
        return;
      }
      const cancel = clock.after(nextAt - clock.now(), resolve);
      const link = linkAbort(this.#stop.signal, resolve);
      this.#wakeUp = () => {
        cancel();
        link[Symbol.dispose]();
        resolve();
      };
    });
    this.#wakeUp?.();
    this.#wakeUp = undefined;
  }

  #event(type: PodEvent["type"], reason: string, message: string): void {
    this.#turnDeps.event(type, reason, message);
  }
}
