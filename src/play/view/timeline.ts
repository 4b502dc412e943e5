/** `play --timeline`: what the kubelet did to each pod, and when. `timeline-svg.ts` draws it. */
import type { PodEvent } from "../kubelet/events.js";
import type { KubeletListener } from "../kubelet/kubelet.js";
import type { ContainerStatusNow, PodStatus } from "../pod-rules/status-types.js";
import type { Manifest, PodKey } from "../manifests/read-manifests.js";
import { allStatuses, readyOf } from "./status-changes.js";

export type BarKind = "sandbox" | "pull" | "create" | "start" | "hook" | "wait" | "run" | "ready";
export type MarkKind = "end" | "failure" | "kill";

/** Times are milliseconds since 1970. */
export interface Bar {
  readonly kind: BarKind;
  readonly from: number;
  /** Undefined while it goes on. */
  to: number | undefined;
  readonly title: string;
  readonly isFailure: boolean;
}

export interface Mark {
  readonly kind: MarkKind;
  readonly at: number;
  readonly title: string;
}

export interface TimelineRow {
  readonly label: string;
  readonly isPod: boolean;
  readonly bars: Bar[];
  readonly marks: Mark[];
}

export interface TimelineData {
  readonly rows: readonly TimelineRow[];
  /** How many bars and marks were left out because there were too many. */
  readonly skipped: number;
}

/** By the reason of an event that has the time of its beginning. */
const steps: Readonly<Record<string, BarKind>> = {
  CreatedPodSandBox: "sandbox",
  FailedCreatePodSandBox: "sandbox",
  Pulled: "pull",
  Failed: "pull",
  Created: "create",
  Started: "start",
  PostStartHook: "hook",
  FailedPostStartHook: "hook",
  PreStopHook: "hook",
  FailedPreStopHook: "hook",
};

/** The most bars and marks of all pods. A container that crashes for days must not fill the memory. */
const itemLimit = 4000;
/** The most pods and containers: a CronJob makes new ones for days. */
const rowLimit = 1000;

interface Track {
  readonly row: TimelineRow;
  /** Else its steps are only counted. */
  readonly isKept: boolean;
  open: Bar | undefined;
  /** Ends of containers that are drawn, of those that the last status had. */
  ends: ReadonlySet<string>;
}

/** To be given to `Kubelet.listen`. */
export class Timeline implements KubeletListener {
  readonly #tracks = new Map<string, Track>();
  readonly #from: number;
  #items = 0;
  #skipped = 0;

  /** `now`: in milliseconds since 1970. */
  constructor(private readonly now: () => number) {
    this.#from = now();
  }

  onEvent({ key, at, type, reason, message, container, startedAt }: PodEvent): void {
    const track = this.#track(key, container);
    const kind = startedAt === undefined ? undefined : steps[reason];
    const isFailure = type === "Warning";
    if (kind !== undefined && startedAt !== undefined)
      this.#add(track, track.row.bars, { kind, from: startedAt, to: at, title: message, isFailure });
    if (isFailure) this.#add(track, track.row.marks, { kind: "failure", at, title: message });
    else if (reason === "Killing") this.#add(track, track.row.marks, { kind: "kill", at, title: message });
  }

  onStatus({ key, pod: { spec } }: Manifest, status: PodStatus): void {
    const isReady = readyOf(status)?.status === "True";
    const phase = isReady ? "ready" : status.phase === "Running" ? "run" : undefined;
    this.#change(this.#track(key, undefined), phase, `pod ${isReady ? "is ready" : "runs"}`, this.now());
    // In the order in which they start.
    for (const { name } of [...(spec.initContainers ?? []), ...spec.containers]) this.#track(key, name);
    for (const container of allStatuses(status)) this.#follow(this.#track(key, container.name), container);
  }

  get data(): TimelineData {
    return { rows: [...this.#tracks.values()].map(({ row }) => row), skipped: this.#skipped };
  }

  #track(key: PodKey, container: string | undefined): Track {
    const pod = `${key.namespace}/${key.name}`;
    const id = container === undefined ? pod : `${pod}/${container}`;
    let track = this.#tracks.get(id);
    if (track === undefined) {
      // The row of the pod comes before those of its containers, and they stay together.
      if (container !== undefined) this.#track(key, undefined);
      const row = { label: container ?? pod, isPod: container === undefined, bars: [], marks: [] };
      const isKept = this.#tracks.size < rowLimit;
      track = { row, isKept, open: undefined, ends: new Set() };
      if (isKept) this.#insert(id, pod, track);
    }
    return track;
  }

  #insert(id: string, pod: string, track: Track): void {
    const entries = [...this.#tracks];
    const last = entries.findLastIndex(([other]) => other === pod || other.startsWith(`${pod}/`));
    entries.splice(last === -1 ? entries.length : last + 1, 0, [id, track]);
    this.#tracks.clear();
    for (const [key, value] of entries) this.#tracks.set(key, value);
  }

  #follow(track: Track, { name, state, lastState, ready }: ContainerStatusNow): void {
    const now = this.now();
    const ends = [lastState.terminated, state.terminated].filter((end) => end !== undefined);
    const drawn = track.ends;
    track.ends = new Set(ends.map(({ containerID }) => containerID));
    for (const end of ends) {
      if (end.finishedAt < this.#from || drawn.has(end.containerID)) continue;
      const at = Math.min(end.finishedAt, now);
      const isOpen = track.open !== undefined && track.open.kind !== "wait" && track.open.from <= at;
      // It may have started and ended between two looks at the pod.
      if (isOpen) this.#change(track, undefined, "", at);
      else if (end.startedAt > 0)
        this.#add(track, track.row.bars, run(name, Math.min(end.startedAt, at), at));
      const title = `${name} ended with exit code ${end.exitCode}${end.reason === "" ? "" : ` (${end.reason})`}`;
      this.#add(track, track.row.marks, { kind: end.exitCode === 0 ? "end" : "failure", at, title });
    }
    const { waiting, running } = state;
    if (running !== undefined) {
      const isNew = track.open === undefined || track.open.kind === "wait";
      const from = isNew ? Math.max(this.#from, Math.min(now, running.startedAt)) : now;
      this.#change(track, ready ? "ready" : "run", `${name} ${ready ? "is ready" : "runs"}`, from);
    } else if (waiting?.reason.endsWith("BackOff") === true) {
      this.#change(track, "wait", waiting.message ?? waiting.reason, now);
    } else {
      this.#change(track, undefined, "", now);
    }
  }

  #change(track: Track, kind: BarKind | undefined, title: string, at: number): void {
    if (track.open?.kind === kind) return;
    if (track.open !== undefined) track.open.to = Math.max(track.open.from, at);
    track.open = kind === undefined ? undefined : { kind, from: at, to: undefined, title, isFailure: false };
    if (track.open !== undefined) this.#add(track, track.row.bars, track.open);
  }

  #add<T>({ isKept }: Track, list: T[], item: T): void {
    if (!isKept || this.#items >= itemLimit) {
      this.#skipped += 1;
      return;
    }
    this.#items += 1;
    list.push(item);
  }
}

function run(name: string, from: number, to: number): Bar {
  return { kind: "run", from, to, title: `${name} ran`, isFailure: false };
}
