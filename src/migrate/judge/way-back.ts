/** What this program makes that the others handle otherwise; docs/migrate/migrating.md shows the rows. */
import type { ContainerFact, PodFact } from "../facts/facts.js";
import type { Level } from "./finding.js";
import { imageMountsLabel } from "../../domain/labels.js";
import { ociRuntimeName } from "../../domain/oci-changes.js";

export type WayBackTarget = "dockershim-in-tree" | "cri-dockerd";

export interface WayBackRow {
  /** Also the id of the finding. */
  readonly id: string;
  /** What this program makes. */
  readonly what: string;
  readonly targets: readonly WayBackTarget[];
  readonly level: Level;
  /** What happens to it with the target. */
  readonly text: string;
  readonly reason: string;
  readonly next: string;
  /** What carries `next` out. */
  readonly command?: (target: WayBackTarget) => string;
  /** Also pods and containers of other programs; else only those that this program made. */
  readonly ofAnyMaker?: true;
  /** Whether the pod has it; a row without a test cannot be derived from the node. */
  readonly pod?: (pod: PodFact, node: NodeOfPod) => boolean;
  readonly container?: (container: ContainerFact) => boolean;
}

export interface NodeOfPod {
  readonly target: WayBackTarget;
  readonly defaultRuntime: string;
}

const both: readonly WayBackTarget[] = ["dockershim-in-tree", "cri-dockerd"];

/** Docker releases those of its own network, and a pod in the network of the host opens none. */
const releasesNothing: readonly string[] = ["default", "bridge", "host"];

/** Whether host ports are open that the target has to release. */
function hasHostPorts({ sandbox, checkpoints }: PodFact): boolean {
  if (releasesNothing.includes(sandbox?.networkMode ?? "")) return false;
  return checkpoints.some((checkpoint) => checkpoint.hasHostPorts);
}

/** Whether the target finds a checkpoint of the pod, in its own directory and with a checksum of its own. */
function lacksCheckpointOf(pod: PodFact, { target }: NodeOfPod): boolean {
  return !pod.checkpoints.some(({ flavour, path }) => {
    const isTheirs = path.includes("/cri-dockerd/");
    return target === "cri-dockerd"
      ? flavour === "criDockerd" && isTheirs
      : flavour === "dockershim" && !isTheirs;
  });
}

/** The command that writes the checkpoints of this program where the target reads them. */
export function convertCheckpoints(target: "dockershim" | "cri-dockerd"): string {
  const directories = {
    dockershim: "/var/lib/dockershim/sandbox",
    "cri-dockerd": "/var/lib/cri-dockerd/sandbox",
  };
  const other = target === "dockershim" ? "cri-dockerd" : "dockershim";
  return `dockershim checkpoint convert --to ${target} --directory ${directories[other]} --output-directory ${directories[target]}`;
}

export const wayBack: readonly WayBackRow[] = [
  {
    id: "way-back-log",
    what: "log files in the CRI's format",
    targets: both,
    level: "change",
    text: "its log has no new lines until the container is made again",
    reason:
      "this program writes the file; the target only links to Docker's own file, when it starts a container",
    next: "delete the pod after the switch, or read `docker logs`; new containers: --container-log-format=docker",
    ofAnyMaker: true,
    container: ({ log, isRunning }) => log === "file" && isRunning,
  },
  {
    id: "way-back-host-ports",
    what: "checkpoints of pods with host ports (cni, kubenet)",
    targets: both,
    level: "change",
    text: "its host ports are not released when the target stops it",
    reason: "dockershim and cri-dockerd read only their own directory, and refuse each other's checksums",
    next: "delete the pod first, or convert its checkpoint before the target starts",
    command: (target) => convertCheckpoints(target === "cri-dockerd" ? "cri-dockerd" : "dockershim"),
    ofAnyMaker: true,
    pod: (pod, node) => hasHostPorts(pod) && lacksCheckpointOf(pod, node),
  },
  {
    id: "way-back-checkpoint",
    what: "checkpoints of other pods",
    targets: both,
    level: "note",
    text: "the target finds no checkpoint of it",
    reason:
      "without host ports to release, the checkpoint counts only when another program removes the sandbox's container",
    next: "",
    ofAnyMaker: true,
    pod: (pod, node) => !hasHostPorts(pod) && lacksCheckpointOf(pod, node),
  },
  {
    id: "way-back-kubenet-ports",
    what: "host ports with kubenet",
    targets: both,
    level: "change",
    text: "rules of its host ports stay when the target stops it",
    reason: "this program uses the plugin portmap; the target's kubenet knows only chains KUBE-HP-…",
    next: "delete the pod before the switch",
    pod: (pod) => pod.record?.plugin === "kubenet" && hasHostPorts(pod),
  },
  {
    id: "way-back-escaped-name",
    what: "names with underscores",
    targets: both,
    level: "change",
    text: "the target lists it under escaped names",
    reason: "only this program reads back names that end in _escaped",
    next: "remove it before the switch; kubelets make no such names",
    pod: ({ sandbox }) => /_escaped$/.test(sandbox?.name ?? ""),
  },
  {
    id: "way-back-escaped-random",
    what: "escaped names with a random suffix",
    targets: both,
    level: "lost",
    text: "the target does not list it",
    reason: "its Docker name has eight fields, and the target reads six or seven",
    next: "remove it before the switch",
    pod: ({ sandbox }) => /_escaped_[0-9a-f]{8}$/.test(sandbox?.name ?? ""),
  },
  {
    id: "way-back-image-volume",
    what: "image volumes",
    targets: both,
    level: "lost",
    text: "it runs on, but cannot be made again, and its volumes stay when it is removed",
    reason: "the target ignores or refuses image volumes",
    next: "move the pod to another node; afterwards remove what `docker ps -a --filter label=dockershim.image-volume` lists",
    container: ({ labels }) => labels[imageMountsLabel] !== undefined,
  },
  {
    id: "way-back-runtime-handler",
    what: "pods with a RuntimeClass",
    targets: ["dockershim-in-tree"],
    level: "lost",
    text: "it runs on, but cannot be made again",
    reason: "the target refuses every runtime handler but docker",
    next: "move the pod to another node, or remove its RuntimeClass",
    pod: ({ sandbox }, { defaultRuntime }) =>
      sandbox !== undefined && !["", defaultRuntime, ociRuntimeName].includes(sandbox.runtime),
  },
  {
    id: "way-back-user-namespace",
    what: "user namespaces of pods",
    targets: both,
    level: "lost",
    text: "it runs on, but none of its containers starts again, and the target makes no such pod",
    reason: `the target gives new containers the sandbox's runtime ${ociRuntimeName}, which refuses them; it announces no user namespaces, so kubelets make no pod with hostUsers: false`,
    next: "move the pod to another node; afterwards umount --recursive /run/dockershim-roots/*/*",
    pod: ({ sandbox }) => sandbox?.runtime === ociRuntimeName,
  },
  {
    id: "way-back-oci-runtime",
    what: "containers of the OCI runtime",
    targets: both,
    level: "lost",
    text: "it runs on, but does not start again, and has less when it is made again",
    reason:
      "mount options, recursive read-only and mapped mounts, ambient capabilities, CDI devices, and early unified and hugepage limits are beyond Docker's API; the target ignores or refuses them",
    next: "move the pod to another node, or do without them",
    container: ({ runtime }) => runtime === ociRuntimeName,
  },
  {
    id: "way-back-limits",
    what: "hugepage and unified cgroup limits",
    targets: both,
    level: "change",
    text: "its hugepage and unified limits are not set again after a restart of the container",
    reason:
      "Docker has no fields for them; this program writes them after each start. Those that kubelets send for every container do not count",
    next: "delete the pod after the switch; new containers have no such limits there",
    container: ({ hasLimitsRecord }) => hasLimitsRecord,
  },
  {
    id: "way-back-cdi",
    what: "CDI devices that an annotation names",
    targets: both,
    level: "lost",
    text: "it runs on, but its devices are missing when it is made again",
    reason: "the target does not read the annotations cdi.k8s.io/…",
    next: "move the pod to another node",
    container: ({ labels }) => Object.keys(labels).some((key) => key.startsWith("annotation.cdi.k8s.io/")),
  },
  {
    id: "way-back-label-keys",
    what: "the labels dockershim.label-keys and dockershim.image-name, and labels of images",
    targets: both,
    level: "note",
    text: "CRI clients see these labels",
    reason: "the target takes every Docker label for a label of the request; kubelets ignore these",
    next: "",
    pod: () => true,
  },
  {
    id: "way-back-cdi-fields",
    what: "recursive read-only mounts, stop signals, swap limits",
    targets: both,
    level: "lost",
    text: "containers keep them; a container that is made again does not have them",
    reason: "the target ignores these fields, and the node does not show who has them",
    next: "look at the pods' specifications",
  },
];

/** What goes back without a difference, for the documentation. */
export const wayBackHarmless: readonly (readonly [what: string, reason: string])[] = [
  ["names and labels", "the three programs have the same"],
  ["typed mounts (`Mounts` in place of `Binds`)", "statuses read what the engine mounted"],
  ["pods with a RuntimeClass, for cri-dockerd 0.4", "it gives new pods and containers the same runtime"],
  ["CDI devices that a device plugin names, for cri-dockerd 0.4", "it reads the same field of the request"],
  ["log driver `none` of the pause container", "no program reads its log"],
  ["`StopTimeout`, stop signals, annotations, ulimits", "the engine keeps them with the container"],
  ["containers in one containerd-shim with their pod", "only their creation differs"],
  ["checkpoints, for the dockershim inside the kubelet", "same directory, same checksum"],
  ["cached CNI results", "same path and format; Go's libcni ignores the added key"],
  ["resolv.conf", "the content stays; no program but this writes it again after a restart of the engine"],
  ["records in `pods/`, `containers/` and `logs/`", "no other program reads them; they wait for the return"],
];

/** The tables of docs/migrate/migrating.md. */
export function wayBackTables(): string {
  const names = { "dockershim-in-tree": "in tree", "cri-dockerd": "cri-dockerd" } as const;
  const rows = wayBack.map(({ what, targets, level, text, next }) => {
    const to = targets.length > 1 ? "both" : targets.map((target) => names[target]).join();
    return `| ${what} | ${to} | ${level} | ${text} | ${next} |`;
  });
  const harmless = wayBackHarmless.map(([what, reason]) => `| ${what} | ${reason} |`);
  return [
    "| what this program makes | target | level | with the target | what to do |",
    "| --- | --- | --- | --- | --- |",
    ...rows,
    "",
    "What goes back as it is:",
    "",
    "| what | reason |",
    "| --- | --- |",
    ...harmless,
    "",
  ].join("\n");
}
