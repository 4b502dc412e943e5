/** Containers as the engine describes them, in our own shape, for API 1.41 to 1.56. */
import { ShimError } from "../../lib/errors.js";
import { parseTimestamp } from "../../lib/time.js";
import { scopePropertyPrefix } from "../../domain/create-body.js";
import { essentialLabels, type Labels, madeLabels } from "../../domain/labels.js";
import type {
  DockerStatus,
  ListedContainer,
  MountSnapshot,
  RequestedMount,
  ResourceSnapshot,
  Snapshot,
} from "../../domain/snapshot.js";
import {
  asObject,
  flagOf,
  type Json,
  labelsOf,
  numberOf,
  objectOf,
  objectsOf,
  textOf,
  textsOf,
} from "../../lib/json/json-readers.js";
import { type Essentials, members } from "./http/json-stream.js";

const statuses: readonly DockerStatus[] = [
  "created",
  "running",
  "paused",
  "restarting",
  "removing",
  "exited",
  "dead",
];

/*
 * What is kept of answers that are too large: labels and environments have no limit. All that is read below
 * must be here, but for port bindings and annotations, which have no limit either.
 */

/** Fields read of `GET /containers/{id}/json`. */
export const containerEssentials: Essentials = {
  ...members("Id", "Name", "Created", "Path", "Image", "Mounts", "LogPath", "ResolvConfPath", "SizeRw"),
  State: members(
    ...["Status", "Running", "Pid", "ExitCode", "OOMKilled", "Error", "StartedAt", "FinishedAt"],
  ),
  Config: {
    ...members("Image", "User", "Tty", "OpenStdin", "StdinOnce", "StopSignal"),
    Labels: members(...essentialLabels),
  },
  HostConfig: members(
    ...["Mounts", "Binds", "LogConfig", "NetworkMode", "PidMode", "IpcMode", "CgroupParent", "Runtime"],
    ...["GroupAdd", "Privileged", "CpuPeriod", "CpuQuota", "CpuShares", "Memory", "MemorySwap"],
    ...["CpusetCpus", "CpusetMems", "OomScoreAdj", "PortBindings"],
  ),
  NetworkSettings: members("Networks"),
  GraphDriver: members("Data"),
};

/** Fields read of an entry of `GET /containers/json`. */
export function listedContainerEssentials(label: string | undefined): Essentials {
  return {
    ...members("Id", "Names", "Image", "ImageID", "Created", "State"),
    Labels: members(...essentialLabels, ...(label === undefined ? [] : [label])),
  };
}

/** The answer of `GET /containers/{id}/json`. */
export function toSnapshot(answer: unknown): Snapshot {
  const json = asObject(answer);
  const config = objectOf(json, "Config");
  const host = objectOf(json, "HostConfig");
  return {
    id: idOf(json),
    name: withoutSlash(textOf(json, "Name")),
    labels: madeLabels(labelsOf(config, "Labels")),
    created: parseTimestamp(textOf(json, "Created")),
    state: toState(objectOf(json, "State")),
    imageId: textOf(json, "Image"),
    imageName: textOf(config, "Image"),
    programBytes: Buffer.byteLength(textOf(json, "Path")),
    user: textOf(config, "User"),
    tty: flagOf(config, "Tty"),
    openStdin: flagOf(config, "OpenStdin"),
    stdinOnce: flagOf(config, "StdinOnce"),
    stopSignal: textOf(config, "StopSignal"),
    mounts: objectsOf(json, "Mounts").map(toMount),
    requestedMounts: [
      ...objectsOf(host, "Mounts").map(toRequestedMount),
      ...textsOf(host, "Binds").map(parseBind),
    ],
    logPath: textOf(json, "LogPath"),
    logDriver: textOf(objectOf(host, "LogConfig"), "Type"),
    logOptions: labelsOf(objectOf(host, "LogConfig"), "Config"),
    resolvConfPath: textOf(json, "ResolvConfPath"),
    networkMode: textOf(host, "NetworkMode"),
    ...boundPorts(objectOf(host, "PortBindings")),
    pidMode: textOf(host, "PidMode"),
    ipcMode: textOf(host, "IpcMode"),
    cgroupParent: textOf(host, "CgroupParent"),
    runtime: textOf(host, "Runtime"),
    groupAdd: textsOf(host, "GroupAdd"),
    privileged: flagOf(host, "Privileged"),
    resources: toResources(host),
    ...scopeProperties(labelsOf(host, "Annotations")),
    addresses: toAddresses(objectOf(json, "NetworkSettings")),
    graphDriver: labelsOf(objectOf(json, "GraphDriver"), "Data"),
  };
}

/** One entry of the answer of `GET /containers/json`. */
export function toListedContainer(answer: unknown): ListedContainer {
  const json = asObject(answer);
  return {
    id: idOf(json),
    status: toStatus(textOf(json, "State"), "exited"),
    labels: madeLabels(labelsOf(json, "Labels")),
    names: textsOf(json, "Names").map(withoutSlash),
    created: BigInt(Math.trunc(numberOf(json, "Created"))) * 1_000_000_000n,
    imageId: textOf(json, "ImageID"),
    imageName: textOf(json, "Image"),
  };
}

function idOf(json: Json): string {
  const id = textOf(json, "Id");
  if (id === "") throw new ShimError("unknown", "read a container: the engine's answer names no id");
  return id;
}

function withoutSlash(name: string): string {
  return name.startsWith("/") ? name.slice(1) : name;
}

function toStatus(text: string, otherwise: DockerStatus): DockerStatus {
  return statuses.find((status) => status === text) ?? otherwise;
}

function toState(state: Json): Snapshot["state"] {
  const running = flagOf(state, "Running");
  return {
    status: toStatus(textOf(state, "Status"), running ? "running" : "exited"),
    running,
    pid: numberOf(state, "Pid"),
    exitCode: numberOf(state, "ExitCode"),
    oomKilled: flagOf(state, "OOMKilled"),
    error: textOf(state, "Error"),
    started: parseTimestamp(textOf(state, "StartedAt")),
    finished: parseTimestamp(textOf(state, "FinishedAt")),
  };
}

function toMount(mount: Json): MountSnapshot {
  return {
    type: textOf(mount, "Type"),
    source: textOf(mount, "Source"),
    destination: textOf(mount, "Destination"),
    readOnly: !flagOf(mount, "RW"),
    propagation: textOf(mount, "Propagation"),
    name: textOf(mount, "Name"),
  };
}

/** Absent where there are none: each snapshot stays in memory. */
function scopeProperties(annotations: Labels): Pick<Snapshot, "scopeProperties"> {
  const properties = Object.entries(annotations)
    .filter(([key]) => key.startsWith(scopePropertyPrefix))
    .map(([key, value]) => [key.slice(scopePropertyPrefix.length), value] as const);
  return properties.length > 0 ? { scopeProperties: Object.fromEntries(properties) } : {};
}

/** Absent where there is none, as in most containers: each snapshot stays in memory. */
function boundPorts(bindings: Json): Pick<Snapshot, "portBindings"> {
  const portBindings = Object.keys(bindings).flatMap((port) =>
    objectsOf(bindings, port).map((binding) => ({
      port,
      hostIp: textOf(binding, "HostIp"),
      hostPort: textOf(binding, "HostPort"),
    })),
  );
  return portBindings.length > 0 ? { portBindings } : {};
}

function toRequestedMount(mount: Json): RequestedMount {
  const bind = objectOf(mount, "BindOptions");
  return {
    type: textOf(mount, "Type"),
    source: textOf(mount, "Source"),
    target: textOf(mount, "Target"),
    readOnly: flagOf(mount, "ReadOnly"),
    recursiveReadOnly: flagOf(bind, "ReadOnlyForceRecursive"),
    propagation: textOf(bind, "Propagation"),
    imageSubPath: textOf(objectOf(mount, "ImageOptions"), "Subpath"),
  };
}

/** `source:target[:options]`; neither path can hold a colon. */
function parseBind(bind: string): RequestedMount {
  const [source = "", target = "", options = ""] = bind.split(":");
  const words = options.split(",");
  return {
    // Docker's rule: what is no absolute path is the name of a volume.
    type: source.startsWith("/") ? "bind" : "volume",
    source,
    target,
    readOnly: words.includes("ro"),
    recursiveReadOnly: false,
    propagation: words.find((word) => /^r?(?:private|shared|slave)$/.test(word)) ?? "",
    imageSubPath: "",
  };
}

function toResources(host: Json): ResourceSnapshot {
  return {
    cpuPeriod: numberOf(host, "CpuPeriod"),
    cpuQuota: numberOf(host, "CpuQuota"),
    cpuShares: numberOf(host, "CpuShares"),
    memory: numberOf(host, "Memory"),
    memorySwap: numberOf(host, "MemorySwap"),
    cpusetCpus: textOf(host, "CpusetCpus"),
    cpusetMems: textOf(host, "CpusetMems"),
    oomScoreAdj: numberOf(host, "OomScoreAdj"),
  };
}

/** From the single networks: the summary beside them is gone at API 1.52. */
function toAddresses(settings: Json): readonly string[] {
  const networks = Object.values(objectOf(settings, "Networks")).map(asObject);
  const addresses = (key: string): readonly string[] =>
    networks.map((network) => textOf(network, key)).filter((address) => address !== "");
  return [...addresses("IPAddress"), ...addresses("GlobalIPv6Address")];
}
