/** A container of a pod as the CRI sees it, derived from Docker's snapshot. */
import { containerStateOf } from "./container-state.js";
import type { ContainerState, Container as ContainerItem } from "./cri.js";
import {
  containerNameLabel,
  containerType,
  fromDockerLabels,
  logPathLabel,
  restartCountLabel,
  sandboxIdLabel,
  typeLabel,
  type Labels,
} from "./labels.js";
import { type ContainerIdentity, type PodIdentity, parseName } from "./names.js";
import type { Snapshot } from "./snapshot.js";

/** The parts of a snapshot that a list entry is derived from; the engine's list has them, too. */
export type ContainerSource = Pick<
  Snapshot,
  "id" | "name" | "labels" | "created" | "imageId" | "imageName"
> & {
  readonly state: Pick<Snapshot["state"], "status" | "exitCode">;
};

/** What lists need to know of a container. */
export interface ContainerEntry {
  readonly id: string;
  readonly sandboxId: string;
  readonly identity: ContainerIdentity;
  readonly state: ContainerState;
  readonly labels: Labels;
  readonly annotations: Labels;
  /** Absolute, or empty when the kubelet wants no log. */
  readonly logPath: string;
  readonly snapshot: ContainerSource;
  /** The entry of ListContainers; the same object as long as nothing changed, so that its bytes can be kept. */
  readonly item: ContainerItem;
}

export interface Container extends ContainerEntry {
  readonly snapshot: Snapshot;
}

/**
 * Undefined when the snapshot is not a container of a pod. `pod` is the identity of its sandbox if that is
 * known: only with it a name of dockershim whose parts contain underscores can be parsed exactly.
 */
export function toContainer(snapshot: Snapshot, pod: PodIdentity | undefined): Container | undefined {
  const entry = toContainerEntry(snapshot, pod);
  return entry === undefined ? undefined : { ...entry, snapshot };
}

/** As `toContainer`. */
export function toContainerEntry(
  snapshot: ContainerSource,
  pod: PodIdentity | undefined,
): ContainerEntry | undefined {
  if (snapshot.labels[typeLabel] !== containerType) return undefined;
  const sandboxId = snapshot.labels[sandboxIdLabel];
  const identity = identityOf(snapshot, pod);
  if (sandboxId === undefined || identity === undefined) return undefined;
  const { labels, annotations } = fromDockerLabels(snapshot.labels);
  const state = containerStateOf(snapshot);
  return {
    id: snapshot.id,
    sandboxId,
    identity,
    state,
    labels,
    annotations,
    logPath: snapshot.labels[logPathLabel] ?? "",
    snapshot,
    item: {
      id: snapshot.id,
      pod_sandbox_id: sandboxId,
      metadata: identity,
      image: imageSpec(snapshot.imageName),
      image_ref: snapshot.imageId,
      image_id: snapshot.imageId,
      state,
      created_at: String(snapshot.created),
      labels,
      annotations,
    },
  };
}

/** Kubelets with EventedPLEG take the first status of several containers of one name for the current one. */
export function newestFirst(containers: readonly Container[]): readonly Container[] {
  return [...containers].sort((a, b) => Number(b.snapshot.created - a.snapshot.created));
}

/** The image part of lists and statuses. */
export function imageSpec(name: string): NonNullable<ContainerItem["image"]> {
  return { image: name, annotations: {}, user_specified_image: "", runtime_handler: "", image_ref: "" };
}

function identityOf(snapshot: ContainerSource, pod: PodIdentity | undefined): ContainerIdentity | undefined {
  const attempt = /_(\d{1,10})(?:_[0-9a-f]{8})?$/.exec(snapshot.name)?.[1];
  if (pod !== undefined && attempt !== undefined) {
    const middle = `_${pod.name}_${pod.namespace}_${pod.uid}_${attempt}`;
    const end = snapshot.name.lastIndexOf(middle);
    if (snapshot.name.startsWith("k8s_") && end > 4)
      return { name: snapshot.name.slice(4, end), attempt: Number(attempt) };
  }
  const parsed = parseName(snapshot.name);
  if (parsed !== undefined) return { name: parsed.container, attempt: parsed.attempt };
  const { [containerNameLabel]: name, [restartCountLabel]: restartCount = "0" } = snapshot.labels;
  if (name === undefined) return undefined;
  // A renamed container has no attempt in its name.
  return { name, attempt: Number(attempt ?? (/^\d{1,9}$/.test(restartCount) ? restartCount : "0")) };
}
