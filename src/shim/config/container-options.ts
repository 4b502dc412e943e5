/** Options that apply to every container. Part of the table in options.ts. */
import { ShimError } from "../../lib/errors.js";
import type { DockerUlimit } from "../../domain/create-body.js";
import { option, type ValueKind } from "./option.js";
import { booleanKind, emptyPathListKind } from "./value-kinds.js";

/** Limits of setrlimit(2) without `RLIMIT_`. Docker refuses other names. */
const ulimitNames = [
  "core",
  "cpu",
  "data",
  "fsize",
  "locks",
  "memlock",
  "msgqueue",
  "nice",
  "nofile",
  "nproc",
  "rss",
  "rtprio",
  "rttime",
  "sigpending",
  "stack",
];

const unlimited = -1;

function parseUlimit(text: string): DockerUlimit {
  const refuse = (reason: string): never => {
    throw new ShimError("invalid", `ulimit ${JSON.stringify(text)}: ${reason}`);
  };
  const [, Name = "", soft, hard = soft] = /^([^=]*)=(-1|\d{1,16})(?::(-1|\d{1,16}))?$/.exec(text) ?? [];
  if (soft === undefined) return refuse("is not of the form name=soft:hard, such as nofile=1024:524288");
  if (!ulimitNames.includes(Name)) refuse(`the name must be one of ${ulimitNames.join(", ")}`);
  const [Soft, Hard] = [Number(soft), Number(hard)];
  if (Math.max(Soft, Hard) > Number.MAX_SAFE_INTEGER) refuse("is too large; use -1 for unlimited");
  if (Hard !== unlimited && (Soft === unlimited || Soft > Hard))
    refuse("the soft limit exceeds the hard one");
  if (Name === "nofile" && Hard === unlimited)
    refuse("nofile cannot be unlimited: the kernel limits it to fs.nr_open");
  return { Name, Soft, Hard };
}

/** Ulimits with different names, separated by commas; may be empty. */
export const ulimitsKind: ValueKind<readonly DockerUlimit[]> = {
  placeholder: "name=soft:hard,…",
  isList: true,
  isRepeatable: true,
  parse(text) {
    const ulimits = text === "" ? [] : text.split(",").map((part) => parseUlimit(part.trim()));
    const names = ulimits.map(({ Name }) => Name);
    const twice = names.find((name, index) => names.indexOf(name) !== index);
    if (twice !== undefined) throw new ShimError("invalid", `names the ulimit "${twice}" twice`);
    return ulimits;
  },
  format: (ulimits) => ulimits.map(({ Name, Soft, Hard }) => `${Name}=${Soft}:${Hard}`),
};

/** Prefixes of annotation keys, separated by commas; may be empty. */
export const annotationPrefixesKind: ValueKind<readonly string[]> = {
  placeholder: "prefix,…",
  isList: true,
  isRepeatable: true,
  parse(text) {
    if (text === "") return [];
    const prefixes = text.split(",").map((part) => part.trim());
    // An empty prefix would allow every annotation.
    if (prefixes.includes("")) throw new ShimError("invalid", "has an empty prefix");
    return [...new Set(prefixes)];
  },
  format: (prefixes) => prefixes,
};

export const containerOptions = {
  defaultUlimits: option({
    name: "default-ulimits",
    group: "Containers",
    kind: ulimitsKind,
    default: "",
    defaultShown: "the engine's",
    help: "Ulimits of each container, as name=soft:hard, separated by commas or repeated flags; -1: unlimited",
  }),
  allowedAnnotations: option({
    name: "allowed-annotations",
    group: "Containers",
    kind: annotationPrefixesKind,
    default: "",
    defaultShown: "none",
    help: "Pass pod annotations with these prefixes to the OCI runtime (Docker Engine 24+); separated by commas or repeated flags",
    why: "some annotations give a pod control over the node. Seven keys, which decide where a container runs, never pass (docs/understand/differences.md)",
  }),
  composeLabels: option({
    name: "compose-labels",
    group: "Containers",
    kind: booleanKind,
    default: "false",
    help: "Give containers Docker Compose's labels of project (the pod) and service, by which Docker Desktop groups them",
    why: "containers of dockershim and cri-dockerd have none. The CRI does not show them; after a way back to cri-dockerd it does",
  }),
  oneContainerdShimPerPod: option({
    name: "one-containerd-shim-per-pod",
    group: "Containers",
    kind: booleanKind,
    default: "true",
    help: "One process of containerd's shim for all containers of a pod (Docker Engine 24+; runc, crun, youki). false: one for each",
    why: "as with containerd's own CRI. A shim takes several MiB. If it is killed, all containers of its pod end. Wrappers of runc (nvidia-container-runtime) have one for each container",
  }),
  absentMountSourcesToReject: option({
    name: "absent-mount-sources-to-reject",
    group: "Containers",
    kind: emptyPathListKind,
    default: "",
    defaultShown: "none",
    help: "Host paths, separated by commas, whose absence fails a mount. Other missing host paths are made as directories",
    why: "CRI-O's option of that name. For example, a missing /etc/hostname must not become a directory",
  }),
};
