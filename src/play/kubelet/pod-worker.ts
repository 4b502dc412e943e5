/** The loop of one pod: observes, decides, acts, waits. */
import { ShimError, isKind, messageOf } from "../../lib/errors.js";
import { linkAbort } from "../../lib/abort.js";
import type { Semaphore } from "../../lib/sync/semaphore.js";
import type { Manifest } from "../manifests/read-manifests.js";
import { BackOff, type BackOffTimes } from "./back-off.js";
import { deletePod } from "./delete-pod.js";
import type { EventSink, PodEvent } from "./events.js";
import type { Handlers } from "../probes/handlers.js";
import { podHash } from "../pod-config/hashes.js";
import { killPod } from "./kill.js";
import { type ObservedPod, emptyPod, podIpOf } from "../pod-rules/observed-pod.js";
import { observePod } from "./observe.js";
import { deadlineOf, hasEnded, podStatus } from "../pod-rules/pod-status.js";
import { hasEndedChanged } from "../pod-rules/pod-actions.js";
import { PodApplication } from "./pod-application.js";
import { type PlayProcesses, type PodLoss, PodOwner } from "./pod-owner.js";
import { ProbeWorkers } from "./probe-workers.js";
import { EmptyDirLimits } from "./empty-dir-limits.js";
import { prepareVolumes } from "../node/prepare-volumes.js";
import { type PodEnd, readPodEnd, writePodEnd } from "../node/pod-end.js";
import { writePodRecord } from "../node/pod-record.js";
import type { StartDeps } from "./start-container.js";
import type { PodStatus, Waiting } from "../pod-rules/status-types.js";
import { type SyncInput, syncPod } from "./sync-pod.js";

export interface WorkerDeps extends Omit<StartDeps, "event"> {
  readonly handlers: Handlers;
  /** Of containers and of pulls. */
  readonly backOff: BackOffTimes;
  readonly onEvent: (event: PodEvent) => void;
  readonly onStatus: (manifest: Manifest, status: PodStatus, observed: ObservedPod) => void;
  /** Of this play: the pods that it keeps are marked with it. */
  readonly playId: string;
  readonly processes: PlayProcesses;
  /** Whether an error before the first application has succeeded ends the loop. */
  readonly failFast: boolean;
  /** Limits how many pods act at the same time. */
  readonly turns: Semaphore;
}

/** The kubelet's: a pod is looked at each minute, and 10 s after an error. */
const resyncMs = 60_000;
const errorMs = 10_000;
const unavailableMs = 1000;

/** Reason of the event that ends the loop of a pod because another play has it now, or has removed it. */
export const takenOver = "TakenOver";

export class PodWorker {
  #probes: ProbeWorkers;
  readonly #crashes: BackOff;
  readonly #pulls: BackOff;
  readonly #waiting = new Map<string, Waiting>();
  readonly #stop = new AbortController();
  readonly #application: PodApplication;
  readonly #limits: EmptyDirLimits;
  #wakeUp: (() => void) | undefined;
  #isWoken = false;
  #startTime: number | undefined;
  #ended: Pick<PodStatus, "phase" | "reason" | "message"> | undefined;
  /** Why the end of the pod is not kept yet. */
  #unkeptEnd: ShimError | undefined;
  #savedHash: string | undefined;
  readonly #owner: PodOwner;
  #hasActed = false;
  #loss: PodLoss | undefined;
  #isServerLost = false;
  #turnsInARow = 0;
  #status: PodStatus | undefined;
  #lastEvent: PodEvent | undefined;
  #deletedAt: number | undefined;
  #running: Promise<void> | undefined;
  #manifest: Manifest;

  constructor(
    manifest: Manifest,
    private readonly deps: WorkerDeps,
  ) {
    this.#manifest = manifest;
    this.#owner = new PodOwner(deps);
    this.#application = new PodApplication(deps);
    this.#crashes = new BackOff(deps.clock, deps.backOff);
    this.#pulls = new BackOff(deps.clock, deps.backOff);
    this.#probes = this.#newProbes();
    this.#limits = new EmptyDirLimits({ ...deps, event: this.#event });
  }

  #newProbes(): ProbeWorkers {
    return new ProbeWorkers({ ...this.deps, event: this.#event }, () => {
      this.wake();
    });
  }

  get manifest(): Manifest {
    return this.#manifest;
  }

  get status(): PodStatus | undefined {
    return this.#status;
  }

  get lastEvent(): PodEvent | undefined {
    return this.#lastEvent;
  }

  /** When `remove` was called, in milliseconds since 1970. */
  get deletedAt(): number | undefined {
    return this.#deletedAt;
  }

  /**
   * Resolves when all containers of the present manifest were started, or fail by themselves. Rejects with
   * the first error before that; with `failFast` the loop has then ended.
   */
  get applied(): Promise<void> {
    return this.#application.outcome;
  }

  /** The loop has ended, by an error or by `stop`. */
  get isOver(): boolean {
    return this.#application.hasFailed || this.#stop.signal.aborted;
  }

  /** Another play keeps the pod, or has removed it; the loop has noticed that. */
  get loss(): PodLoss | undefined {
    return this.#loss;
  }

  /** The same, also when the loop has not noticed it yet, because nothing of the pod has changed. */
  async isLost(): Promise<boolean> {
    if (this.#loss !== undefined) return true;
    return (await this.#owner.loss(this.#manifest.key).catch(() => undefined)) !== undefined;
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
    this.#owner.forget();
    this.wake();
    if (manifest.hash === this.#manifest.hash) return;
    this.#application.renew();
    if (podHash(manifest) !== podHash(this.#manifest)) this.#ended = undefined;
    this.#manifest = manifest;
    this.#waiting.clear();
  }

  /** Ends the loop. The pod's containers stay as they are. */
  async stop(): Promise<void> {
    this.#stop.abort(new ShimError("cancelled", "the pod is no longer watched"));
    this.#probes.close();
    await this.#running;
  }

  /** Ends the loop and deletes the pod. */
  async remove(signal: AbortSignal, graceSeconds?: number): Promise<void> {
    this.#deletedAt ??= this.deps.clock.now();
    this.#probes.stopKilling();
    this.#stop.abort(new ShimError("cancelled", "the pod is being removed"));
    await this.#running;
    await deletePod(this.#manifest.key, { ...this.deps, event: this.#event }, signal, { graceSeconds });
    this.#probes.close();
  }

  /** Never rejects. */
  async #run(): Promise<void> {
    const { signal } = this.#stop;
    for (;;) {
      this.#isWoken = false;
      let nextAt: number;
      try {
        nextAt = await this.deps.turns.run(signal, () => this.#sync(signal));
        this.#checkProgress(nextAt);
        if (this.#isServerLost) this.#event("Normal", "ServerBack", "the CRI server and its engine are back");
        this.#isServerLost = false;
      } catch (error) {
        if (signal.aborted || this.#application.hasFailed || this.#application.fails(error)) break;
        nextAt = this.deps.clock.now() + this.#retryAfter(error);
      }
      await this.#wait(nextAt);
      if (signal.aborted) break;
    }
    this.#probes.close();
    this.#application.end(ShimError.from(signal.reason));
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

  /** One turn. Returns when to look again, in milliseconds since 1970. */
  async #sync(signal: AbortSignal): Promise<number> {
    const manifest = this.#manifest;
    const { spec } = manifest.pod;
    const deps = { ...this.deps, event: this.#event };
    const observed = await this.#observe(manifest, signal);
    // After the observation: what another play has changed in it, was changed after it took the pod.
    await this.#checkOwner(manifest, signal);
    // Also of a pod that has ended: another play may make it again.
    // What another play has done since the observation shows in the next one.
    if (!this.#owner.isMarked && (await this.#mark(manifest, signal))) return 0;
    this.#hasActed = false;
    this.#probes.update(spec, observed);
    this.#ended ??= (await this.#keptEnd(manifest, observed)) ?? (await this.#limits.end(manifest, observed));
    const status = this.#statusOf(manifest, observed);
    if (hasEndedChanged(spec, observed, { hasEnded: hasEnded(status) })) {
      await this.#deleteOld(manifest, signal);
      return 0;
    }
    this.#publish(manifest, observed, status);
    if (hasEnded(status)) {
      this.#ended = status;
      this.#probes.close();
      const isUp = observed.sandboxes.some(({ isReady }) => isReady);
      if (isUp || this.#unkeptEnd !== undefined) await this.#keepEnd(manifest, observed, status);
      if (isUp) await killPod(observed, { spec, podIp: podIpOf(spec, observed) }, deps, signal);
      if (this.#unkeptEnd !== undefined) throw this.#unkeptEnd;
      await this.#application.check({ manifest, observed, failures: [], status }, this.deps);
      return isUp ? 0 : Infinity;
    }
    await this.#save(manifest, observed);
    const memory = { crashes: this.#crashes, pulls: this.#pulls, waiting: this.#waiting };
    const check = (): Promise<void> => this.#checkOwner(manifest, signal);
    const starting: SyncInput["starting"] = (work) =>
      this.#owner.starting(manifest.key, { check, signal }, work);
    this.#hasActed = true; // Until the turn tells it.
    const { hasActed, failures } = await syncPod(
      { manifest, observed, probes: this.#probes, ...memory, starting },
      deps,
      signal,
    );
    this.#hasActed = hasActed;
    const present = failures.length > 0 ? this.#statusOf(manifest, observed) : status;
    if (present !== status) this.#publish(manifest, observed, present);
    await this.#application.check({ manifest, observed, failures, status: present }, this.deps);
    if (hasActed) return 0;
    const now = this.deps.clock.now();
    const retries = failures.map(({ retryAt }) => retryAt ?? now + errorMs);
    const limits = [deadlineOf(spec, status.startTime), this.#limits.nextAt(manifest)];
    return Math.min(now + resyncMs, ...limits, ...retries);
  }

  /** A pod that was made from another manifest is deleted first. */
  async #observe(manifest: Manifest, signal: AbortSignal): Promise<ObservedPod> {
    const { key } = manifest;
    const observed = await observePod(this.deps, key, signal);
    if (observed.sandboxes.some(({ playHash }) => playHash === undefined))
      throw new ShimError("conflict", "a pod of this name is on the node that was not made by play");
    const hash = podHash(manifest);
    const isOld = observed.sandboxes.some(({ uid, playHash }) => uid !== key.uid || playHash !== hash);
    if (!isOld) return observed;
    await this.#deleteOld(manifest, signal);
    return emptyPod;
  }

  async #deleteOld(manifest: Manifest, signal: AbortSignal): Promise<void> {
    const { key } = manifest;
    await this.#checkOwner(manifest, signal);
    this.#owner.forget();
    this.#event("Normal", "Recreating", "its manifest has changed: the pod is deleted and made again");
    const nextOwner = this.deps.playId;
    await deletePod(key, { ...this.deps, event: this.#event }, signal, { nextOwner });
    this.#startTime = undefined;
    this.#ended = undefined;
    this.#unkeptEnd = undefined;
    this.#savedHash = undefined;
    // Those of a pod that had ended are closed.
    this.#probes.close();
    this.#probes = this.#newProbes();
    this.#waiting.clear();
  }

  /** Of a play before this one. */
  async #keptEnd({ key }: Manifest, { sandboxes }: ObservedPod): Promise<PodEnd | undefined> {
    const [newest] = sandboxes;
    if (this.#status !== undefined || newest === undefined) return undefined;
    return readPodEnd(key, newest.id, this.deps);
  }

  /** Never rejects: the disk may be full because of the pod, which is killed then all the same. */
  async #keepEnd({ key }: Manifest, { sandboxes }: ObservedPod, status: PodStatus): Promise<void> {
    const { reason, message = "" } = status;
    const [newest] = sandboxes;
    this.#unkeptEnd = undefined;
    if (newest === undefined || reason === undefined) return;
    try {
      await writePodEnd(key, newest.id, { reason, message }, this.deps);
    } catch (error) {
      this.#unkeptEnd = ShimError.from(error).within("keep for later plays that the pod has ended");
    }
  }

  #statusOf(manifest: Manifest, observed: ObservedPod): PodStatus {
    const now = this.deps.clock.now();
    const oldest = observed.sandboxes.at(-1);
    this.#startTime ??= oldest === undefined ? now : Number(oldest.createdAt / 1_000_000n);
    const ended = this.#ended === undefined ? {} : { ended: this.#ended };
    const memory = { startTime: this.#startTime, waiting: this.#waiting, ...ended };
    return podStatus(manifest, observed, this.#probes, memory, now);
  }

  #publish(manifest: Manifest, observed: ObservedPod, status: PodStatus): void {
    this.#status = status;
    this.deps.onStatus(manifest, status, observed);
  }

  /** Answers whether another play had the pod. */
  #mark({ key }: Manifest, signal: AbortSignal): Promise<boolean> {
    const onWait = (process: string): void => {
      this.#event("Normal", "Waiting", `${process} starts something of the pod: waiting until it has`);
    };
    return this.#owner.mark(key, onWait, signal);
  }

  /** Ends the loop of a pod that another play has. */
  async #checkOwner({ key }: Manifest, signal: AbortSignal): Promise<void> {
    const loss = await this.#owner.loss(key);
    if (loss === undefined) return;
    // What the last turn has made, the removal may not have seen.
    if (loss === "removed" && this.#hasActed)
      await deletePod(key, { ...this.deps, event: () => undefined }, signal);
    const message = `another play has ${loss} the pod`;
    this.#loss = loss;
    this.#stop.abort(new ShimError("conflict", message));
    this.#event("Normal", takenOver, message);
    throw ShimError.from(this.#stop.signal.reason);
  }

  async #save(manifest: Manifest, { sandboxes }: ObservedPod): Promise<void> {
    if (this.#savedHash === manifest.hash) return;
    await writePodRecord(manifest, this.deps);
    // Changed ConfigMaps and Secrets reach volumes that are mounted already.
    if (sandboxes.some(({ isReady }) => isReady)) await prepareVolumes(manifest, this.deps);
    this.#savedHash = manifest.hash;
  }

  readonly #event: EventSink = (type, reason, message, container, startedAt) => {
    const at = this.deps.clock.now();
    const subject = container === undefined ? {} : { container };
    const step = startedAt === undefined ? {} : { startedAt };
    this.#lastEvent = { key: this.#manifest.key, at, type, reason, message, ...subject, ...step };
    this.deps.onEvent(this.#lastEvent);
  };
}
