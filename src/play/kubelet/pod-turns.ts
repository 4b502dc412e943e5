/** The turns of the loop of one pod: each observes the pod, decides by `nextTurn`, and acts. */
import { ShimError } from "../../lib/errors.js";
import type { Manifest } from "../manifests/read-manifests.js";
import { type PodEnd, readPodEnd, writePodEnd, writePodRecord } from "../node/pod-record.js";
import { prepareVolumes } from "../node/prepare-volumes.js";
import {
  type PodState,
  type Turn,
  afterStarts,
  changedState,
  newPodState,
  nextTurn,
  originOf,
} from "../pod-rules/next-turn.js";
import { containerHash } from "../pod-config/hashes.js";
import { type ObservedPod, newestContainer, podIpOf } from "../pod-rules/observed-pod.js";
import { type PodMemory, deadlineOf, podIsReady, podStatus } from "../pod-rules/pod-status.js";
import type { Waiting, PodStatus } from "../pod-rules/status-types.js";
import { BackOff } from "./back-off.js";
import { deletePod } from "./delete-pod.js";
import { EmptyDirLimits } from "./empty-dir-limits.js";
import type { ApplicationInput } from "./pod-application.js";
import { killPod } from "./kill-containers.js";
import type { KubeletDeps, PodEvents } from "./kubelet-deps.js";
import { observePod } from "./observe.js";
import { type PodLoss, PodOwner } from "./pod-owner.js";
import { ProbeWorkers } from "./probe-workers.js";
import { syncPod } from "./sync-pod.js";

export interface TurnDeps extends KubeletDeps, PodEvents {
  readonly onStatus: (manifest: Manifest, status: PodStatus, observed: ObservedPod) => void;
  /** Another play has the pod: no other turn may follow. */
  readonly onLoss: (error: ShimError) => void;
  /** Wants a turn: the result of a probe has changed. */
  readonly wake: () => void;
}

export interface TurnResult {
  /** When the next turn is due, in milliseconds since 1970; 0 after one that has changed something. */
  readonly nextAt: number;
  /** Undefined when the pod was not looked at to the end. */
  readonly outcome?: ApplicationInput;
}

export interface Readiness {
  /** Of the manifest that it is for. */
  readonly hash: string;
  /** The containers are those of the manifest, and the pod is ready. */
  readonly isReady: boolean;
  /** When that was first seen, in milliseconds since 1970. */
  readonly since: number;
}

/** The kubelet looks at a pod each minute, and 10 s after an error. */
const resyncMs = 60_000;
export const errorMs = 10_000;

/** Reason of the event that ends the loop of a pod because another play has it now, or has removed it. */
export const takenOver = "TakenOver";

const again: TurnResult = { nextAt: 0 };

export class PodTurns {
  #state: PodState = newPodState;
  #probes: ProbeWorkers;
  readonly #crashes: BackOff;
  readonly #pulls: BackOff;
  readonly #limits: EmptyDirLimits;
  readonly #owner: PodOwner;
  /** Why the end of the pod is not kept yet. */
  #unkeptEnd: ShimError | undefined;
  #savedHash: string | undefined;
  #hasActed = false;
  #loss: PodLoss | undefined;
  #status: PodStatus | undefined;
  #readiness: Readiness | undefined;

  constructor(private readonly deps: TurnDeps) {
    this.#owner = new PodOwner(deps);
    this.#crashes = new BackOff(deps.clock, deps.backOff);
    this.#pulls = new BackOff(deps.clock, deps.backOff);
    this.#limits = new EmptyDirLimits(deps);
    this.#probes = new ProbeWorkers(deps, deps.wake);
  }

  get status(): PodStatus | undefined {
    return this.#status;
  }

  /** As it was seen last. */
  get readiness(): Readiness | undefined {
    return this.#readiness;
  }

  /** What another play has done with the pod, once a turn has noticed that. */
  get loss(): PodLoss | undefined {
    return this.#loss;
  }

  /** What another play has done with the pod, also before a turn has noticed that. */
  async currentLoss({ key }: Manifest): Promise<PodLoss | undefined> {
    return this.#loss ?? this.#owner.loss(key);
  }

  /** The next turn takes the pod, also from another play. */
  take(): void {
    this.#owner.forget();
  }

  change(before: Manifest, now: Manifest): void {
    this.#state = changedState(this.#state, before, now);
  }

  /** Ends liveness and startup probes: the pod is being deleted. */
  stopKilling(): void {
    this.#probes.stopKilling();
  }

  close(): void {
    this.#probes.close();
  }

  async run(manifest: Manifest, signal: AbortSignal): Promise<TurnResult> {
    const observed = await observePod(this.deps, manifest.key, signal);
    const origin = originOf(manifest, observed);
    if (origin === "foreign")
      throw new ShimError("conflict", "a pod of this name is on the node that was not made by play");
    if (origin === "outdated") return this.#recreate(manifest, signal);
    // After the observation: what another play has changed in it, was changed after it took the pod.
    await this.#checkOwner(manifest, signal);
    // What another play has done since the observation shows in the next one.
    if (!this.#owner.isMarked && (await this.#mark(manifest, signal))) return again;
    this.#hasActed = false;
    this.#probes.update(manifest.pod.spec, observed);
    const ended = this.#state.ended ?? (await this.#endOf(manifest, observed));
    const input = { observed, probes: this.#probes, ended, now: this.deps.clock.now() };
    const { state, turn } = nextTurn(manifest, this.#state, input);
    this.#state = state;
    if (turn.kind === "recreate") return this.#recreate(manifest, signal);
    this.#publish(manifest, observed, turn.status);
    return turn.kind === "end"
      ? this.#end(manifest, observed, turn, signal)
      : this.#act(manifest, observed, turn, signal);
  }

  async #end(
    manifest: Manifest,
    observed: ObservedPod,
    { status, isUp }: Extract<Turn, { readonly kind: "end" }>,
    signal: AbortSignal,
  ): Promise<TurnResult> {
    const { spec } = manifest.pod;
    this.#probes.close();
    if (isUp || this.#unkeptEnd !== undefined) await this.#keepEnd(manifest, observed, status);
    if (isUp) await killPod(observed, { spec, podIp: podIpOf(spec, observed) }, this.deps, signal);
    if (this.#unkeptEnd !== undefined) throw this.#unkeptEnd;
    return { nextAt: isUp ? 0 : Infinity, outcome: { manifest, observed, failures: [], status } };
  }

  async #act(
    manifest: Manifest,
    observed: ObservedPod,
    { status, actions }: Extract<Turn, { readonly kind: "act" }>,
    signal: AbortSignal,
  ): Promise<TurnResult> {
    const { deps } = this;
    await this.#save(manifest, observed);
    this.#hasActed = true; // Until the result says otherwise.
    const starts = new Map<string, Waiting | undefined>();
    let memory: PodMemory = { startTime: status.startTime, ...this.#state };
    const { hasActed, failures } = await syncPod(
      {
        manifest,
        observed,
        actions,
        starts,
        crashes: this.#crashes,
        pulls: this.#pulls,
        starting: (work) => {
          const check = (): Promise<void> => this.#checkOwner(manifest, signal);
          return this.#owner.starting(manifest.key, { check, signal }, work);
        },
      },
      deps,
      signal,
    ).finally(() => {
      memory = afterStarts({ startTime: status.startTime, ...this.#state }, starts);
      this.#state = memory;
    });
    this.#hasActed = hasActed;
    const present = failures.length > 0 ? this.#statusOf(manifest, observed, memory) : status;
    if (present !== status) this.#publish(manifest, observed, present);
    const outcome = { manifest, observed, failures, status: present };
    if (hasActed) return { nextAt: 0, outcome };
    const now = deps.clock.now();
    const retries = failures.map(({ retryAt }) => retryAt ?? now + errorMs);
    const limits = [deadlineOf(manifest.pod.spec, status.startTime), this.#limits.nextAt(manifest)];
    return { nextAt: Math.min(now + resyncMs, ...limits, ...retries), outcome };
  }

  #statusOf(manifest: Manifest, observed: ObservedPod, memory: PodMemory): PodStatus {
    return podStatus(manifest, observed, this.#probes, memory, this.deps.clock.now());
  }

  #publish(manifest: Manifest, observed: ObservedPod, status: PodStatus): void {
    this.#status = status;
    const isMade = manifest.pod.spec.containers.every(
      (container) => newestContainer(observed, container.name)?.hash === containerHash(container),
    );
    const isReady = podIsReady(status) && (isMade || status.phase === "Succeeded");
    const before = this.#readiness;
    const since = before?.isReady === isReady ? before.since : this.deps.clock.now();
    this.#readiness = { hash: manifest.hash, isReady, since };
    this.deps.onStatus(manifest, status, observed);
  }

  /** Deletes the pod, which was made from another manifest or has ended for good. */
  async #recreate(manifest: Manifest, signal: AbortSignal): Promise<TurnResult> {
    const { deps } = this;
    await this.#checkOwner(manifest, signal);
    this.#owner.forget();
    deps.event("Normal", "Recreating", "its manifest has changed: the pod is deleted and made again");
    await deletePod(manifest.key, deps, signal, { nextOwner: deps.playId });
    this.#state = newPodState;
    this.#unkeptEnd = undefined;
    this.#savedHash = undefined;
    // Those of a pod that had ended are closed.
    this.#probes.close();
    this.#probes = new ProbeWorkers(deps, deps.wake);
    return again;
  }

  /** By an earlier play, or by what the pod has on disk. */
  async #endOf(manifest: Manifest, observed: ObservedPod): Promise<PodState["ended"]> {
    return (await this.#keptEnd(manifest, observed)) ?? this.#limits.end(manifest, observed);
  }

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

  /** Answers whether another play had the pod. */
  #mark({ key }: Manifest, signal: AbortSignal): Promise<boolean> {
    const onWait = (process: string): void =>
      this.deps.event("Normal", "Waiting", `${process} starts something of the pod: waiting until it has`);
    return this.#owner.mark(key, onWait, signal);
  }

  /** Throws when another play has the pod. */
  async #checkOwner({ key }: Manifest, signal: AbortSignal): Promise<void> {
    const loss = await this.#owner.loss(key);
    if (loss === undefined) return;
    // What the last turn has made, the removal may not have seen.
    if (loss === "removed" && this.#hasActed)
      await deletePod(key, { ...this.deps, event: () => undefined }, signal);
    const error = new ShimError("conflict", `another play has ${loss} the pod`);
    this.#loss = loss;
    this.deps.onLoss(error);
    this.deps.event("Normal", takenOver, error.message);
    throw error;
  }

  async #save(manifest: Manifest, { sandboxes }: ObservedPod): Promise<void> {
    if (this.#savedHash === manifest.hash) return;
    await writePodRecord(manifest, this.deps);
    // Changed ConfigMaps and Secrets reach volumes that are mounted already.
    if (sandboxes.some(({ isReady }) => isReady)) await prepareVolumes(manifest, this.deps);
    this.#savedHash = manifest.hash;
  }
}
