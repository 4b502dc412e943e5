/**
 * What is kept of answers that are too large. Labels and environments of images have no limit, and Docker puts them into
 * the description of each container; so everything that snapshot.ts and images.ts read is here, but for most labels.
 */
import { essentialLabels } from "../domain/labels.js";
import type { Essentials } from "./http/json-trimmer.js";

function members(...keys: readonly string[]): Essentials {
  return Object.fromEntries(keys.map((key) => [key, true]));
}

/** @param label A label more that matters. */
function labels(...label: readonly string[]): Essentials {
  return members(...essentialLabels, ...label);
}

/** Of `GET /containers/{id}/json`. */
export const containerEssentials: Essentials = {
  ...members("Id", "Name", "Created", "Image", "Mounts", "LogPath", "ResolvConfPath", "SizeRw"),
  State: members(
    ...["Status", "Running", "Pid", "ExitCode", "OOMKilled", "Error", "StartedAt", "FinishedAt"],
  ),
  Config: { ...members("Image", "User", "Tty", "OpenStdin", "StdinOnce", "StopSignal"), Labels: labels() },
  HostConfig: members(
    ...["Mounts", "Binds", "LogConfig", "NetworkMode", "PidMode", "IpcMode", "CgroupParent", "Runtime"],
    ...["GroupAdd", "Privileged", "CpuPeriod", "CpuQuota", "CpuShares", "Memory", "MemorySwap"],
    ...["CpusetCpus", "CpusetMems", "OomScoreAdj"],
  ),
  NetworkSettings: members("Networks"),
  GraphDriver: members("Data"),
};

/** Of an entry of `GET /containers/json`. */
export function listedContainerEssentials(label: string | undefined): Essentials {
  return {
    ...members("Id", "Names", "Image", "ImageID", "Created", "State"),
    Labels: labels(...(label === undefined ? [] : [label])),
  };
}

/** Of `GET /images/{reference}/json`. */
export const imageEssentials: Essentials = {
  ...members("Id", "RepoTags", "RepoDigests", "Created", "Author", "Architecture", "Os", "Size"),
  Config: { ...members("User", "StopSignal", "Volumes"), Labels: labels() },
  RootFS: members("Layers"),
  GraphDriver: members("Name", "Data"),
};

/** Of an entry of `GET /images/json`. */
export const listedImageEssentials: Essentials = {
  ...members("Id", "RepoTags", "RepoDigests", "Created", "Size", "SharedSize", "Manifests"),
  Labels: labels(),
};

/** Of `GET /system/df`. */
export const diskUsageEssentials: Essentials = { LayersSize: true, ImageUsage: members("TotalSize") };

/** Of `GET /exec/{id}/json`: the command itself is in it. */
export const execEssentials: Essentials = members("Running", "ExitCode", "Pid");

/** Of an event: its content is not believed, so only what happened to what. */
export function eventEssentials(labelKey: string): Essentials {
  return {
    ...members("Type", "Action"),
    Actor: { ID: true, Attributes: members(labelKey) },
  };
}
