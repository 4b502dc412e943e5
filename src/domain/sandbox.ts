/** A pod sandbox as the CRI sees it, from Docker's snapshot and, when this program made it, from its record. */
import { type PodSandbox, NamespaceMode, PodSandboxState } from "./cri.js";
import {
  fromDockerLabels,
  podNameLabel,
  podNamespaceLabel,
  podUidLabel,
  sandboxType,
  typeLabel,
  type Labels,
} from "./labels.js";
import { type PodIdentity, parseName } from "./names.js";
import type { Snapshot } from "./snapshot.js";

/** The parts of a pod record (state/pod-records.ts) that a sandbox is derived from. */
export interface SandboxRecord {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly attempt: number;
  readonly phase: "creating" | "ready" | "stopped";
  readonly runtimeHandler: string;
  readonly namespaces: { readonly network: number; readonly pid: number; readonly ipc: number };
}

/** The parts of a snapshot that a list entry is derived from; the engine's list has them, too. */
export type SandboxSource = Pick<Snapshot, "id" | "name" | "labels" | "created" | "imageId" | "imageName"> & {
  readonly state: Pick<Snapshot["state"], "running">;
};

/** What lists need to know of a sandbox. */
export interface SandboxEntry {
  readonly id: string;
  readonly pod: PodIdentity;
  /** Running, and everything that RunPodSandbox promises is done. */
  readonly ready: boolean;
  readonly labels: Labels;
  readonly annotations: Labels;
  readonly runtimeHandler: string;
  readonly snapshot: SandboxSource;
  /** The entry of ListPodSandbox; the same object as long as nothing changed, so that its bytes can be kept. */
  readonly item: PodSandbox;
}

export interface Sandbox extends SandboxEntry {
  readonly hostNetwork: boolean;
  readonly namespaces: {
    readonly network: NamespaceMode;
    readonly pid: NamespaceMode;
    readonly ipc: NamespaceMode;
  };
  readonly snapshot: Snapshot;
}

/** Whether the pod's network is Docker's, by no-op of this program or of others. */
export function hasDockerNetwork({ networkMode }: Pick<Snapshot, "networkMode">): boolean {
  return networkMode !== "" && networkMode !== "none" && networkMode !== "host";
}

/** Undefined when the snapshot is no sandbox, or its pod cannot be told from record, name or labels. */
export function toSandbox(snapshot: Snapshot, record: SandboxRecord | undefined): Sandbox | undefined {
  const entry = toSandboxEntry(snapshot, record);
  if (entry === undefined) return undefined;
  const hostNetwork = snapshot.networkMode === "host";
  return { ...entry, hostNetwork, namespaces: namespacesOf(snapshot, record), snapshot };
}

/** As `toSandbox`. */
export function toSandboxEntry(
  snapshot: SandboxSource,
  record: SandboxRecord | undefined,
): SandboxEntry | undefined {
  if (snapshot.labels[typeLabel] !== sandboxType) return undefined;
  const pod = record ?? podOf(snapshot);
  if (pod === undefined) return undefined;
  const identity: PodIdentity = {
    name: pod.name,
    namespace: pod.namespace,
    uid: pod.uid,
    attempt: pod.attempt,
  };
  const { labels, annotations } = fromDockerLabels(snapshot.labels);
  const ready = snapshot.state.running && (record === undefined || record.phase === "ready");
  const runtimeHandler = record?.runtimeHandler ?? "";
  return {
    id: snapshot.id,
    pod: identity,
    ready,
    labels,
    annotations,
    runtimeHandler,
    snapshot,
    item: {
      id: snapshot.id,
      metadata: identity,
      state: ready ? PodSandboxState.SANDBOX_READY : PodSandboxState.SANDBOX_NOTREADY,
      created_at: String(snapshot.created),
      labels,
      annotations,
      runtime_handler: runtimeHandler,
    },
  };
}

/** From the name; where that is no k8s name or has underscores inside, from the labels that the kubelet sets. */
function podOf(snapshot: SandboxSource): PodIdentity | undefined {
  const parsed = parseName(snapshot.name);
  if (parsed !== undefined) return { ...parsed.pod, attempt: parsed.attempt };
  const { [podNameLabel]: name, [podNamespaceLabel]: namespace, [podUidLabel]: uid } = snapshot.labels;
  if (name === undefined || namespace === undefined || uid === undefined) return undefined;
  const attempt = /_(\d{1,10})(?:_[0-9a-f]{8})?$/.exec(snapshot.name)?.[1] ?? "0";
  return { name, namespace, uid, attempt: Number(attempt) };
}

/** Docker cannot tell the PID modes POD and CONTAINER of a sandbox apart; without a record CONTAINER is reported. */
function namespacesOf(snapshot: Snapshot, record: SandboxRecord | undefined): Sandbox["namespaces"] {
  const pid = record?.namespaces.pid === NamespaceMode.POD ? NamespaceMode.POD : NamespaceMode.CONTAINER;
  return {
    network: snapshot.networkMode === "host" ? NamespaceMode.NODE : NamespaceMode.POD,
    pid: snapshot.pidMode === "host" ? NamespaceMode.NODE : pid,
    ipc: snapshot.ipcMode === "host" ? NamespaceMode.NODE : NamespaceMode.POD,
  };
}

export type PortProtocol = "tcp" | "udp" | "sctp";

/** One port mapping of a pod, as requested; host port 0 maps nothing but is kept in the checkpoint. */
export interface PortMapping {
  readonly protocol: PortProtocol;
  readonly containerPort: number;
  readonly hostPort: number;
  /** Empty: all addresses. */
  readonly hostIp: string;
}
