/** Snapshots of containers, complete, with what a test cares about on top. */
import type { ListedContainer, ResourceSnapshot, Snapshot } from "../../src/domain/snapshot.js";
import {
  containerNameLabel,
  containerType,
  sandboxContainerName,
  sandboxIdLabel,
  sandboxType,
  typeLabel,
} from "../../src/domain/labels.js";

export type SnapshotChanges = Partial<Omit<Snapshot, "state" | "resources">> & {
  readonly state?: Partial<Snapshot["state"]>;
  readonly resources?: Partial<Snapshot["resources"]>;
};

export const createdAt = 1_700_000_000_000_000_000n;

/** A 64-digit id that begins with `start`. */
export function idOf(start: string): string {
  return start.padEnd(64, "0");
}

export const noResources: ResourceSnapshot = {
  cpuPeriod: 0,
  cpuQuota: 0,
  cpuShares: 0,
  memory: 0,
  memorySwap: 0,
  cpusetCpus: "",
  cpusetMems: "",
  oomScoreAdj: 0,
};

export function snapshotOf({ state, resources, ...changes }: SnapshotChanges): Snapshot {
  return {
    id: idOf("c0"),
    name: "foreign",
    labels: {},
    created: createdAt,
    imageId: `sha256:${idOf("1a")}`,
    imageName: "busybox",
    programBytes: 7,
    user: "",
    tty: false,
    openStdin: false,
    stdinOnce: false,
    stopSignal: "",
    mounts: [],
    requestedMounts: [],
    logPath: "",
    logDriver: "json-file",
    logOptions: {},
    resolvConfPath: "",
    networkMode: "default",
    pidMode: "",
    ipcMode: "private",
    cgroupParent: "",
    runtime: "runc",
    groupAdd: [],
    privileged: false,
    addresses: [],
    graphDriver: {},
    ...changes,
    state: {
      status: "running",
      running: true,
      pid: 4242,
      exitCode: 0,
      oomKilled: false,
      error: "",
      started: createdAt + 1n,
      finished: 0n,
      ...state,
    },
    resources: { ...noResources, ...resources },
  };
}

export function sandboxSnapshot(id: string, changes: SnapshotChanges = {}): Snapshot {
  return snapshotOf({
    id,
    name: "k8s_POD_web_default_uid-1_0",
    imageName: "pause",
    ...changes,
    labels: { [typeLabel]: sandboxType, [containerNameLabel]: sandboxContainerName, ...changes.labels },
  });
}

export function containerSnapshot(id: string, sandboxId: string, changes: SnapshotChanges = {}): Snapshot {
  return snapshotOf({
    id,
    name: "k8s_main_web_default_uid-1_0",
    networkMode: `container:${sandboxId}`,
    ...changes,
    labels: { [typeLabel]: containerType, [sandboxIdLabel]: sandboxId, ...changes.labels },
  });
}

/** What the engine's list says of it. */
export function listedOf({
  id,
  name,
  labels,
  created,
  imageId,
  imageName,
  state,
}: Snapshot): ListedContainer {
  return { id, status: state.status, labels, names: [name], created, imageId, imageName };
}
