/** Keeps one Job: makes and removes its pods by the decisions of jobs.ts, until it is complete or has failed. */
import { isDeepStrictEqual } from "node:util";
import type { PodSandbox } from "../../domain/cri.js";
import { messageOf } from "../../lib/errors.js";
import type { CriClient } from "../cri/client.js";
import type { Kubelet } from "../kubelet/kubelet.js";
import type { Reports } from "../kubelet/kubelet-deps.js";
import { hasEnded } from "../pod-rules/pod-status.js";
import type { PodStatus } from "../pod-rules/status-types.js";
import { type Clock, pause } from "../kubelet/clock.js";
import { jobPodOf, makeJobPod } from "../manifests/make-pod.js";
import { jobOfMark, parseJobMark } from "../manifests/job-mark.js";
import type { Manifest, PodKey } from "../manifests/manifest.js";
import type { Job } from "../manifests/workloads.js";
import { jobNameLabel, playJobAnnotation } from "../pod-config/cri-config.js";
import { failureAction } from "./pod-failure-policy.js";
import { type JobDecision, type JobPod, type WantedPod, decideJob } from "./jobs.js";

/** What all jobs of a play share. */
export interface JobEnvironment extends Reports {
  readonly client: Pick<CriClient, "listPodSandboxes">;
  readonly kubelet: Kubelet;
  readonly clock: Clock;
}

export interface JobRunnerDeps extends JobEnvironment {
  /** The time for a decision has come: calls `decide`, and looks after its outcome. */
  readonly wake: () => void;
  /** Makes a pod. */
  readonly apply: (manifest: Manifest, signal: AbortSignal) => Promise<void>;
  /** What play keeps of a pod of an earlier play, which goes on as it is, whatever the template is now. */
  readonly kept?: (uid: string) => Promise<Manifest | undefined>;
}

/** Between two tries to remove a pod. */
const retryMs = 10_000;

export class JobRunner {
  readonly #known = new Map<string, WantedPod>();
  /** Those of an earlier play that were not looked at yet: they may have ended, and do not count as pending. */
  readonly #unseen = new Set<string>();
  /** Those that a decision has removed: that they were not made is no failure. */
  readonly #removing = new Set<string>();
  /** When the ends of its pods were first seen, in milliseconds. */
  readonly #ends = new Map<string, number>();
  #startedAt: number | undefined;
  #state: JobDecision["state"] = "running";
  #cancelWake: (() => void) | undefined;
  #running: Promise<void> | undefined;
  #isDirty = false;
  #isClosed = false;

  /** What it was when its newest pod was made, until all pods that were there are known. */
  #then: Job | undefined;
  readonly #onEnd: (() => void)[] = [];
  #job: Job;

  constructor(
    job: Job,
    private readonly deps: JobRunnerDeps,
  ) {
    this.#job = job;
  }

  get job(): Job {
    return this.#job;
  }

  /** Calls `listener` when the job is complete or has failed. */
  onEnd(listener: () => void): void {
    this.#onEnd.push(listener);
  }

  get state(): JobDecision["state"] {
    return this.#state;
  }

  get isOver(): boolean {
    return this.#state === "complete" || this.#state === "failed";
  }

  /** Nothing will happen to it unless its manifest changes. */
  get isAtRest(): boolean {
    return this.isOver || this.#state === "suspended";
  }

  /** Takes up the pods of an earlier play, and makes the first ones. */
  async start(signal: AbortSignal): Promise<void> {
    const { namespace, name } = this.job;
    const labels = { "io.kubernetes.pod.namespace": namespace, [jobNameLabel]: name };
    const manifests = new Map<string, Manifest>();
    const listed = await this.deps.client.listPodSandboxes(labels, signal);
    this.#takeUp(listed);
    for (const { metadata } of listed) {
      const { name: podName = "", uid = "" } = metadata ?? {};
      const wanted = jobPodOf(this.job, podName);
      if (wanted === undefined) continue;
      this.#known.set(podName, wanted);
      this.#unseen.add(podName);
      manifests.set(podName, (await this.deps.kept?.(uid)) ?? makeJobPod(this.job, wanted));
    }
    // All are known before the first can wake up a decision.
    await Promise.all(
      [...manifests].map(async ([podName, manifest]) => {
        try {
          await this.deps.apply(manifest, signal);
        } catch (error) {
          if (!this.#removing.has(podName)) throw error;
        }
      }),
    );
    for (const name of this.#unseen) {
      if (this.#podOf(name) === undefined) this.#unseen.delete(name); // Nothing will look at it any more.
    }
    await this.decide(signal);
  }

  #podOf(name: string): ReturnType<Kubelet["pod"]> {
    return this.deps.kubelet.pod({ namespace: this.#job.namespace, name });
  }

  /** A job that a CronJob has started does not change with it; a Job that has ended has ended. */
  #takeUp(listed: readonly PodSandbox[]): void {
    const sorted = [...listed].sort((left, right) =>
      Number(BigInt(right.created_at) - BigInt(left.created_at)),
    );
    const mark = parseJobMark(sorted[0]?.annotations[playJobAnnotation]);
    if (mark === undefined) return;
    const then = jobOfMark(this.#job, mark);
    const { owner } = this.#job.template;
    if (owner.name !== this.#job.name) this.#job = then;
    else if (owner.kind === "Job") this.#then = { ...then, activeDeadlineSeconds: undefined };
  }

  /** Called when one of its pods may have changed. */
  async decide(signal: AbortSignal): Promise<void> {
    this.#isDirty = true;
    for (const name of this.#unseen) if (this.#podOf(name)?.status !== undefined) this.#unseen.delete(name);
    if (this.#unseen.size > 0 || this.isOver || this.#isClosed || signal.aborted) return;
    this.#running ??= this.#turns(signal);
    await this.#running;
  }

  /** Whether it has made the pod. */
  has({ namespace, name }: Pick<PodKey, "namespace" | "name">): boolean {
    return namespace === this.job.namespace && this.#known.has(name);
  }

  /** Deletes its pods, and makes no more. */
  async remove(signal: AbortSignal): Promise<void> {
    this.close();
    await this.#running?.catch(() => undefined);
    await Promise.all([...this.#known.keys()].map((name) => this.#remove(name, signal)));
  }

  /** Makes no more pods, and leaves those that are there to another play. */
  async leave(): Promise<void> {
    this.close();
    await this.#running?.catch(() => undefined);
    const { namespace } = this.job;
    await Promise.all([...this.#known.keys()].map((name) => this.deps.kubelet.forget({ namespace, name })));
  }

  /** Makes no more pods. */
  close(): void {
    this.#isClosed = true;
    this.#cancelWake?.();
  }

  async #turns(signal: AbortSignal): Promise<void> {
    try {
      do {
        this.#isDirty = false;
        await this.#turn(signal);
      } while (this.#mustGoOn(signal));
    } finally {
      // In the same turn of the event loop as the last look at `isDirty`: no call between them is lost.
      this.#running = undefined;
    }
  }

  #mustGoOn(signal: AbortSignal): boolean {
    return this.#isDirty && !this.isOver && !this.#isClosed && !signal.aborted;
  }

  async #turn(signal: AbortSignal): Promise<void> {
    const now = this.deps.clock.now();
    const statuses = [...this.#known].map(([name, wanted]) => ({
      name,
      wanted,
      status: this.#podOf(name)?.status,
    }));
    this.#startedAt ??= Math.min(now, ...statuses.map(({ status }) => status?.startTime ?? now));
    for (const { name, status } of statuses) {
      if (status !== undefined && hasEnded(status) && !this.#ends.has(name)) this.#ends.set(name, now);
    }
    const pods = statuses.map(({ name, wanted, status }) =>
      jobPod(this.#job, name, wanted, status, this.#ends.get(name) ?? now),
    );
    const times = { startedAt: this.#startedAt, now };
    const before = this.#then && decideJob(this.#then, pods, times);
    if (statuses.every(({ status }) => status !== undefined)) this.#then = undefined;
    const hadEnded = before?.state === "complete" || before?.state === "failed";
    const decision = hadEnded ? before : decideJob(this.#job, pods, times);
    if (decision.state !== this.#state) this.#reportState(decision);
    this.#state = decision.state;
    this.#cancelWake?.();
    if (decision.wakeAt !== undefined)
      this.#cancelWake = this.deps.clock.after(decision.wakeAt - now, this.deps.wake);
    await Promise.all(
      decision.remove.map(async (name) => {
        this.#removing.add(name);
        await this.#remove(name, signal);
        this.#known.delete(name);
        this.#ends.delete(name);
      }),
    );
    if (this.isOver) for (const listener of this.#onEnd) listener();
    if (decision.make.length === 0 || this.#isClosed) return;
    await Promise.all(decision.make.map((wanted) => this.#make(wanted, signal)));
    this.#isDirty = true;
  }

  async #make(wanted: WantedPod, signal: AbortSignal): Promise<void> {
    const manifest = makeJobPod(this.#job, wanted);
    this.#known.set(manifest.key.name, wanted);
    this.#removing.delete(manifest.key.name);
    await this.deps.apply(manifest, signal);
  }

  #remove(name: string, signal: AbortSignal): Promise<void> {
    return removeSurely({ namespace: this.#job.namespace, name }, this.deps, signal);
  }

  #reportState({ state, reason }: JobDecision): void {
    const why = reason === undefined ? "" : ` (${reason})`;
    this.deps.report(`${this.#job.namespace}/${this.job.name}: job ${state}${why}`);
  }
}

/** Tries until the pod is removed: its loop has ended, so that nothing else would end it. */
export async function removeSurely(
  key: Pick<PodKey, "namespace" | "name">,
  { kubelet, clock, report }: Omit<JobEnvironment, "client">,
  signal: AbortSignal,
): Promise<void> {
  for (;;) {
    try {
      await kubelet.remove(key, signal);
      return;
    } catch (error) {
      signal.throwIfAborted();
      report(`${key.namespace}/${key.name}: cannot be removed, trying again: ${messageOf(error)}`);
    }
    await pause(retryMs, clock, signal);
  }
}

/** `endedAt`: for a pod that has ended before all of its containers could, as by its deadline during a pull. */
export function jobPod(
  { failureRules }: Pick<Job, "failureRules">,
  name: string,
  wanted: WantedPod,
  status: PodStatus | undefined,
  endedAt: number,
): JobPod {
  const pod = { name, ...wanted };
  if (status === undefined) return { ...pod, phase: "Pending", restarts: 0 };
  const containers = [...status.initContainerStatuses, ...status.containerStatuses];
  const restarts = containers.reduce((sum, { restartCount }) => sum + restartCount, 0);
  const ends = status.containerStatuses.map(({ state }) => state.terminated?.finishedAt ?? 0);
  const isWhole = ends.every((end) => end > 0);
  const finishedAt = hasEnded(status) ? { finishedAt: isWhole ? Math.max(...ends) : endedAt } : {};
  const action = status.phase === "Failed" ? failureAction(failureRules, status) : undefined;
  return { ...pod, phase: status.phase, restarts, action, ...finishedAt };
}

/** Whether they ask for the same, wherever that is written. */
export function isSameJob(left: Job, right: Job): boolean {
  const content = ({ source: _, line: _line, template, ...job }: Job): unknown => {
    const { source: _source, line: _at, ...rest } = template;
    return { ...job, template: rest };
  };
  return isDeepStrictEqual(content(left), content(right));
}
