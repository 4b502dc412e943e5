/** Intended differences in answers about pods and containers. */
import {
  areValues,
  type IntendedDifference,
  onlyHere,
  onlyThere,
  textOf,
  type Values,
} from "./intended-entry.js";
import { annotationPrefix, madeKeysLabel } from "../../domain/labels.js";
import { isMessage, type Message, textAt, valueAt } from "./answer-shape.js";

const legacy = ["kubelet-dockershim", "cri-dockerd"] as const;

/** Go's overflow of Docker's zero time. */
const zeroTime = "-6795364578871345152";

export const intendedOfPods: readonly IntendedDifference[] = [
  {
    key: "checkpoint-alone",
    against: legacy,
    rpcs: ["ListPodSandbox"],
    fields: ["items[]"],
    when: ({ there, subjectHere }) =>
      there === null &&
      textAt(subjectHere, "created_at") === "0" &&
      textAt(subjectHere, "metadata", "uid") === "",
    what: "ListPodSandbox: a pod that is left as a checkpoint alone",
    they: "from their own directory and of their own flavour",
    here: "of both flavours, from the directories of both",
    reason: "the kubelet removes it, and its network with it",
    see: "[checkpoints](../../checkpoints/README.md)",
  },
  {
    key: "created-at-seconds",
    against: legacy,
    rpcs: ["ListPodSandbox", "ListContainers"],
    fields: ["items[].created_at", "containers[].created_at"],
    when: isSameSecond,
    what: "lists: `created_at`",
    they: "whole seconds, as in Docker's list",
    here: "nanoseconds, as in the status",
    reason: "kubelets sort pods and containers by it",
  },
  {
    key: "image-labels",
    against: legacy,
    fields: ["*labels[]"],
    when: isNotOfTheRequest,
    what: "labels of pods and containers",
    they: "also those of the image, and the labels `dockershim.…` of this program",
    here: "those of the request alone, where this program made the pod",
    reason: "Docker adds the image's labels to those of the request; an image is not trusted",
  },
  {
    key: "labels-like-annotations",
    against: legacy,
    fields: ["*labels[]", "*annotations[]"],
    when: ({ key, there, here, subjectHere }) =>
      key.startsWith(annotationPrefix)
        ? there === null
        : here === null && annotationPrefix + key in labelsOf(subjectHere),
    what: "a label of the request that begins with `annotation.`",
    they: "an annotation",
    here: "a label, where this program made the pod",
    reason: "as requested",
  },
  {
    key: "newer-fields",
    against: legacy,
    rpcs: ["ListContainers", "ContainerStatus"],
    fields: [
      "containers[].image_id",
      "status.image_id",
      "status.resources",
      "status.user",
      "status.stop_signal",
    ],
    when: onlyHere,
    what: "containers: `image_id`, `resources`, `user`, `stop_signal`",
    they: "never",
    here: "answered",
    reason: "fields of later CRI versions; kubelets resize pods by `resources`",
  },
  {
    key: "image-name-in-lists",
    against: legacy,
    rpcs: ["ListContainers"],
    fields: ["containers[].image.image"],
    when: ({ there, subjectThere }) => textOf(there) === textAt(subjectThere, "image_ref"),
    what: "ListContainers: a container whose image has lost its tag to another",
    they: "the id of the image",
    here: "the name in the request",
    reason: "what a container was made from does not change",
  },
  {
    key: "failed-start-in-lists",
    against: legacy,
    rpcs: ["ListContainers"],
    fields: ["containers[].state"],
    when: areValues(0, 2),
    what: "ListContainers: a container whose start failed",
    they: "CREATED, although its status is EXITED",
    here: "EXITED",
    reason: "one state for list and status",
  },
  {
    key: "dead-in-lists",
    against: legacy,
    rpcs: ["ListContainers"],
    fields: ["containers[].state"],
    when: areValues(3, 2),
    what: "ListContainers: a container that Docker calls dead",
    they: "UNKNOWN, although its status is EXITED",
    here: "EXITED",
    reason: "one state for list and status",
  },
  {
    key: "failed-start-elsewhere",
    against: legacy,
    rpcs: ["ContainerStatus"],
    fields: ["state", "exit_code", "reason", "message", "started_at", "finished_at"].map(
      (name) => `status.${name}`,
    ),
    when: ({ subjectThere, subjectHere }) =>
      textAt(subjectThere, "status", "reason") === "ContainerCannotRun" &&
      textAt(subjectHere, "status", "state") === "0",
    what: "ContainerStatus after a failed start by another program",
    they: "EXITED, `ContainerCannotRun`",
    here: "the same within 30 s, CREATED before",
    reason: "Docker has no event for it; a failed start of this program is known at once",
  },
  {
    key: "containers-of-the-pod",
    against: legacy,
    rpcs: ["PodSandboxStatus"],
    fields: ["containers_statuses[]", "timestamp"],
    when: onlyHere,
    what: "PodSandboxStatus `containers_statuses`, `timestamp`",
    they: "never",
    here: "all containers of the pod",
    reason: "kubelets with EventedPLEG ask once instead of once per container",
  },
  {
    key: "runtime-handler",
    against: legacy,
    rpcs: ["ListPodSandbox", "PodSandboxStatus"],
    fields: ["items[].runtime_handler", "status.runtime_handler"],
    when: (values) => onlyHere(values) || onlyThere(values),
    what: "`runtime_handler`",
    they: "DS, lists of CD: never; PodSandboxStatus of CD: Docker's runtime, such as `runc`",
    here: "that of the request; empty for the default",
    reason: "it is the handler of the RuntimeClass",
  },
  {
    key: "pid-mode",
    against: legacy,
    rpcs: ["PodSandboxStatus"],
    fields: ["status.linux.namespaces.options.pid"],
    when: areValues(1, 0),
    what: "PodSandboxStatus: PID mode",
    they: "CONTAINER for POD",
    here: "as requested",
    reason: "pods with `shareProcessNamespace`",
  },
  {
    key: "additional-addresses",
    against: ["cri-dockerd"],
    rpcs: ["PodSandboxStatus"],
    fields: ["status.network.additional_ips[]"],
    when: onlyHere,
    what: "PodSandboxStatus `additional_ips`",
    they: "CD: with `--ipv6-dual-stack` only",
    here: "unless `--ipv6-dual-stack=false`",
    reason: "the default differs",
  },
  {
    key: "never-started",
    against: legacy,
    rpcs: ["ContainerStatus"],
    fields: ["status.started_at", "status.finished_at"],
    when: areValues(zeroTime, 0),
    what: "ContainerStatus `started_at`, `finished_at` of what has not happened",
    they: `${zeroTime}, an overflow`,
    here: "0",
    reason: "the CRI's value for it",
  },
  {
    key: "killed-child",
    against: legacy,
    rpcs: ["ContainerStatus"],
    fields: ["status.reason"],
    when: ({ there, subjectThere }) =>
      textOf(there) === "OOMKilled" && textAt(subjectThere, "status", "exit_code") !== "137",
    what: "ContainerStatus `reason` when memory ran out and the exit code is not 137",
    they: "`OOMKilled`",
    here: "`Completed` for 0, else `Error`",
    reason: "only a child was killed, perhaps long before; `container_oom_events_total` counts it",
  },
  {
    key: "image-ref-repository",
    against: legacy,
    rpcs: ["ContainerStatus"],
    fields: ["status.image_ref"],
    when: isSameDigest,
    what: "ContainerStatus `image_ref` of an image with several repositories",
    they: "the first repository",
    here: "that of the request",
    reason: "pod statuses show where the image came from",
  },
  {
    key: "mount-propagation",
    against: legacy,
    rpcs: ["ContainerStatus"],
    fields: ["status.mounts[].propagation", "status.mounts[].recursive_read_only"],
    when: onlyHere,
    what: "ContainerStatus: propagation, `recursive_read_only` of mounts",
    they: "DS: never; CD: not for HOST_TO_CONTAINER, never recursive",
    here: "as the container has it",
    reason: "CRI 1.30",
  },
  {
    key: "image-volumes",
    against: legacy,
    rpcs: ["ContainerStatus"],
    fields: ["status.mounts[].image", "status.mounts[].image_sub_path", "status.mounts[].host_path"],
    when: isOfImageVolume,
    what: "ContainerStatus: mounts of image volumes",
    they: "Docker's volume",
    here: "image and sub path",
    reason: "CRI 1.31",
  },
  {
    key: "statistics",
    against: legacy,
    rpcs: ["ListContainerStats", "ContainerStats"],
    fields: ["stats[]", "stats"].flatMap((stats) =>
      [
        "cpu.psi",
        ...["available_bytes", "usage_bytes", "rss_bytes", "page_faults", "major_page_faults", "psi"].map(
          (name) => `memory.${name}`,
        ),
        "swap",
        "io",
      ].map((name) => `${stats}.${name}`),
    ),
    when: onlyHere,
    what: "statistics but CPU time and working set",
    they: "never",
    here: "answered",
    reason: "`/stats/summary` and `/metrics/cadvisor` of kubelets show them",
    see: "[statistics](../run/stats.md)",
  },
  {
    key: "statistics-of-ended-containers",
    against: legacy,
    rpcs: ["ListContainerStats", "ContainerStats"],
    fields: ["stats[]", "stats.cpu", "stats.memory"],
    when: (values) => onlyThere(values) && usedNothing(values),
    what: "statistics of containers that do not run",
    they: "zeros",
    here: "not in lists; without figures",
    reason: "nothing is measured",
  },
];

/** Whether the other program has a label that was not in the request, by this program's list of those that were. */
function isNotOfTheRequest({ key, there, here, subjectThere }: Values): boolean {
  if (there === null || here !== null) return false;
  const keys: unknown = valueAt(parsed(textAt(labelsOf(subjectThere), madeKeysLabel)), "keys");
  return Array.isArray(keys) && (key.startsWith("dockershim.") || !keys.includes(key));
}

/** The labels of an entry of a list, or of an answer about one object. */
function labelsOf(subject: unknown): Message {
  const about = valueAt(subject, "status") ?? valueAt(subject, "stats") ?? subject;
  const labels = valueAt(about, "labels") ?? valueAt(about, "attributes", "labels");
  return isMessage(labels) ? labels : {};
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // A label that any program may have written.
    return undefined;
  }
}

function isSameSecond({ there, here }: Values): boolean {
  const second = (nanoseconds: unknown): string => textOf(nanoseconds).slice(0, -9);
  return second(there) === second(here) && textOf(there).endsWith("000000000");
}

function isSameDigest({ there, here }: Values): boolean {
  const digest = (reference: unknown): string | undefined =>
    /^docker-pullable:\/\/.*@(.+)$/.exec(textOf(reference))?.[1];
  return digest(there) !== undefined && digest(there) === digest(here);
}

/** The entry of a list, or an answer about one container. */
function usedNothing({ subjectThere }: Values): boolean {
  const stats = valueAt(subjectThere, "stats") ?? subjectThere;
  return textAt(stats, "cpu", "usage_core_nano_seconds", "value") === "0";
}

/** The mount is one of an image, by this program's answer. */
function isOfImageVolume({ key, subjectHere }: Values): boolean {
  const mounts = valueAt(subjectHere, "status", "mounts");
  return (
    Array.isArray(mounts) &&
    mounts.some((mount) => textAt(mount, "container_path") === key && isMessage(valueAt(mount, "image")))
  );
}
