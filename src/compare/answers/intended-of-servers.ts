/** Intended differences in errors and in answers about the server, its images and file systems. */
import {
  type IntendedDifference,
  onlyHere,
  onlyOnOneSide,
  onlyThere,
  textOf,
  type Values,
} from "./intended-entry.js";
import { textsAt, valueAt } from "./answer-shape.js";

const legacy = ["kubelet-dockershim", "cri-dockerd"] as const;
const others = ["containerd", "cri-o"] as const;
const all = [...legacy, ...others] as const;

/** Numbers of gRPC. */
const unimplemented = 12;
const unknown = 2;

export const intendedOfServers: readonly IntendedDifference[] = [
  {
    key: "rpc-not-offered",
    against: all,
    fields: ["error", "error.code"],
    when: ({ there, here }) =>
      there === unimplemented || (here === null && valueAt(there, "code") === unimplemented),
    what: "RPCs",
    they: "UNIMPLEMENTED: DS RuntimeConfig; DS, CD all about statistics of pods and metrics; others by version",
    here: "answered",
    reason: "later kubelets refuse or replace runtimes without them",
    see: "[kubelets](../run/kubelets.md#what-later-kubelets-refuse)",
  },
  {
    key: "error-code",
    against: legacy,
    fields: ["error.code"],
    when: ({ there, here }) => there === unknown && here !== unknown,
    what: "codes of errors",
    they: "UNKNOWN",
    here: "NOT_FOUND and others, as the CRI has them",
    reason: "kubelets and crictl treat what is gone otherwise than a failure",
  },
  {
    key: "error-text",
    against: all,
    fields: ["error.message"],
    what: "messages of errors",
    they: "a text of their own",
    here: "action, value and reason",
    reason: "kubelets copy them into pod events, where people read them",
  },
  {
    key: "runtime-name",
    against: others,
    rpcs: ["Version"],
    fields: ["runtime_name", "runtime_version"],
    what: "Version `runtime_name`, `runtime_version`",
    they: "their own",
    here: "`docker` and the version of the engine",
    reason: "the name is the prefix of container ids in pod statuses; agents look for it",
  },
  {
    key: "engine-build",
    against: legacy,
    rpcs: ["Version"],
    fields: ["runtime_version"],
    when: ({ there, here }) => textOf(there).startsWith(`${textOf(here)}+`),
    what: "Version `runtime_version`",
    they: "with the build of a distribution: `28.5.2+dfsg4`",
    here: "`28.5.2`",
    reason: "the version of the engine alone decides what it can do",
  },
  {
    key: "api-version",
    against: ["cri-dockerd", ...others],
    rpcs: ["Version"],
    fields: ["runtime_api_version"],
    when: ({ there }) => /^v1(alpha2)?$/.test(textOf(there)),
    what: "Version `runtime_api_version`",
    they: "CD, containerd, CRI-O: `v1`",
    here: "Docker's API version and `.0`, as DS",
    reason: "kubelets up to 1.23 parse it for a runtime named `docker`",
  },
  {
    key: "condition-text",
    against: all,
    rpcs: ["Status"],
    fields: ["status.conditions[].message", "status.conditions[].reason"],
    what: "Status: reason and message of a condition",
    they: "texts of their own",
    here: "what is not ready, and why",
    reason: "the node's condition shows it",
  },
  {
    key: "handlers-and-features",
    against: legacy,
    rpcs: ["Status"],
    fields: ["runtime_handlers[]", "features"],
    when: onlyHere,
    what: "Status `runtime_handlers`, `features`",
    they: "never",
    here: "the engine's runtimes; supplemental groups policy",
    reason: "CRI 1.30 and 1.31; recursive read-only mounts and user namespaces depend on it",
  },
  {
    key: "own-status",
    against: others,
    rpcs: ["Status"],
    fields: [
      "status.conditions[]",
      "runtime_handlers[]",
      "runtime_handlers[].features",
      "runtime_handlers[].features.recursive_read_only_mounts",
      "runtime_handlers[].features.user_namespaces",
      "features",
      "features.supplemental_groups_policy",
    ],
    what: "Status: further conditions, `runtime_handlers`, `features`",
    they: "what they are configured for",
    here: "what Docker can do",
    reason: "another runtime",
  },
  {
    key: "pinned",
    against: all,
    rpcs: ["ListImages", "ImageStatus"],
    fields: ["images[].pinned", "image.pinned"],
    when: onlyHere,
    what: "`pinned` in ListImages and ImageStatus",
    they: "DS: never; CD: the pause image",
    here: "also images of containers outside of pods, images never pulled or pushed, and `--pinned-images`",
    reason: "kubelets know only images of pods, and removed others",
    see: "[kubelets](../run/kubelets.md#which-images-kubelets-remove)",
  },
  {
    key: "names-without-tag",
    against: legacy,
    rpcs: ["ListImages", "ImageStatus"],
    fields: ["images[].repo_tags[]", "images[].repo_digests[]", "image.repo_tags[]", "image.repo_digests[]"],
    when: isNoName,
    what: "images: names of an image without a tag",
    they: "`<none>:<none>` of older engines; digests among the tags with the containerd image store",
    here: "left out",
    reason: "they name no image",
  },
  {
    key: "image-spec",
    against: all,
    rpcs: ["ImageStatus"],
    fields: ["image.spec"],
    when: onlyHere,
    what: "ImageStatus `image.spec`",
    they: "never",
    here: "the annotations of the request",
    reason: "the CRI's field for them",
  },
  {
    key: "own-images",
    against: others,
    rpcs: ["ListImages", "ImageStatus"],
    fields: ["size", "repo_tags[]", "repo_digests[]", "pinned", "spec"].flatMap((name) => [
      `images[].${name}`,
      `image.${name}`,
    ]),
    what: "images that both have: `size`, names, `pinned`",
    they: "their store: containerd has the size of the compressed layers",
    here: "Docker's store",
    reason: "another runtime",
  },
  {
    key: "users-in-lists",
    against: others,
    rpcs: ["ListImages"],
    fields: ["images[].uid", "images[].username"],
    when: onlyThere,
    what: "ListImages: the user of an image",
    they: "containerd: answered",
    here: "in ImageStatus alone, as DS and CD",
    reason: "Docker's list has no users; kubelets ask for one image",
  },
  {
    key: "own-objects",
    against: others,
    fields: [
      "items[]",
      "containers[]",
      "images[]",
      "stats[]",
      "pod_metrics[]",
      "descriptors[]",
      "image_filesystems[]",
      "container_filesystems[]",
    ],
    when: onlyOnOneSide,
    what: "pods, containers, images, file systems, metrics of one side",
    they: "their own",
    here: "those of Docker",
    reason: "another runtime: what is lost by a change says `dockershim migrate check`",
  },
  {
    key: "writable-layers",
    against: ["kubelet-dockershim"],
    rpcs: ["ImageFsInfo"],
    fields: ["container_filesystems[]"],
    when: onlyHere,
    what: "ImageFsInfo `container_filesystems`",
    they: "DS: never",
    here: "bytes and inodes of writable layers",
    reason: "kubelets evict pods by both",
  },
];

/** Among digests every name has one. */
function isNoName({ there, here, subjectThere }: Values): boolean {
  const image = valueAt(subjectThere, "image") ?? subjectThere;
  const name = textOf(there);
  const isTag = textsAt(image, "repo_tags").includes(name);
  return here === null && (isTag ? /<none>|@sha256:|^sha256:/ : /<none>/).test(name);
}
