import {
  type Answer,
  type ContainerResources,
  type ContainerStatus,
  type ContainerUser,
  type Mount,
  ContainerState,
  MountPropagation,
} from "../../../domain/cri.js";
import { type ImageMount, imageMountsOf } from "../../../domain/image-mounts.js";
import { type Container, imageSpec } from "../../../domain/container.js";
import { exitOf } from "../../../domain/container-state.js";
import type { ImageUserFiles } from "../../../domain/image-users.js";
import { parseReference } from "../../../domain/image-reference.js";
import type { MountSnapshot, Snapshot } from "../../../domain/snapshot.js";
import { stopSignalNumber } from "../../../domain/stop-signal.js";
import { recursiveOption } from "../../plan/recursive-read-only.js";
import { cleanPath } from "../../plan/paths.js";
import { isLifted } from "../../plan/resources.js";
import { requireReadContainer } from "../find-by-id.js";
import type { KnownImage } from "../../images/image-cache.js";
import type { Handler, Services } from "../services.js";

/** From memory. The image is inspected once. */
export const containerStatus: Handler<"ContainerStatus"> = async (request, services, call) => {
  await services.state.link.live(call.signal);
  const container = await requireReadContainer(request.container_id, services, call.signal);
  return {
    status: await describeContainer(container, services, call.signal),
    info: request.verbose ? { info: JSON.stringify(verboseInfo(container)) } : {},
  };
};

/** The status of a container, for answers and events. Throws only the reason of `signal`. */
export async function describeContainer(
  container: Container,
  services: Pick<Services, "images" | "records">,
  signal: AbortSignal,
): Promise<Answer<ContainerStatus>> {
  // If the image is gone, the status shows its id.
  const { imageId } = container.snapshot;
  const [image, userFiles] = await Promise.all([
    services.images.cache.get(imageId, signal),
    services.images.users.whatIsKnown(imageId),
  ]);
  return statusOf(container, { image, userFiles }, services);
}

export function statusOf(
  container: Container,
  known: { readonly image: KnownImage | undefined; readonly userFiles: ImageUserFiles | undefined },
  services: Pick<Services, "records">,
): Answer<ContainerStatus> {
  const { image, userFiles } = known;
  const { snapshot } = container;
  const exit = exitOf(snapshot);
  const ended = container.state === ContainerState.CONTAINER_EXITED;
  return {
    id: container.id,
    metadata: container.identity,
    state: container.state,
    created_at: String(snapshot.created),
    started_at: String(exit.startedAt),
    finished_at: String(exit.finishedAt),
    exit_code: ended ? snapshot.state.exitCode : 0,
    image: imageSpec(image?.repoTags[0] ?? snapshot.imageName),
    image_ref: imageRef(snapshot, image),
    image_id: snapshot.imageId,
    reason: exit.reason,
    message: exit.message,
    labels: container.labels,
    annotations: container.annotations,
    mounts: mountsOf(snapshot, services),
    log_path: container.logPath,
    resources: resourcesOf(container, services),
    user: userOf(container, userFiles),
    stop_signal: stopSignalNumber(snapshot.stopSignal === "" ? "SIGTERM" : snapshot.stopSignal),
  };
}

/**
 * `docker-pullable://<repository>@<digest>`. The repository is the one of the request where that names one.
 * Kubelets name an id; then it is the first repository of the image.
 */
function imageRef(snapshot: Snapshot, image: KnownImage | undefined): string {
  const digests = image?.repoDigests ?? [];
  const wanted = parseReference(snapshot.imageName)?.repository;
  const digest = digests.find((one) => parseReference(one)?.repository === wanted) ?? digests[0];
  return digest === undefined ? `docker://${snapshot.imageId}` : `docker-pullable://${digest}`;
}

const propagations: Readonly<Record<string, MountPropagation>> = {
  rshared: MountPropagation.PROPAGATION_BIDIRECTIONAL,
  shared: MountPropagation.PROPAGATION_BIDIRECTIONAL,
  rslave: MountPropagation.PROPAGATION_HOST_TO_CONTAINER,
  slave: MountPropagation.PROPAGATION_HOST_TO_CONTAINER,
};

function mountsOf(
  snapshot: Snapshot,
  { records: { containers } }: Pick<Services, "records">,
): readonly Answer<Mount>[] {
  const images = imageMountsOf(snapshot.labels);
  const targets = new Set(images.map(({ containerPath }) => cleanPath(containerPath)));
  const others = snapshot.mounts.filter(({ destination }) => !targets.has(cleanPath(destination)));
  // Those that the OCI runtime makes.
  const recursive = Object.entries(containers.get(snapshot.id)?.oci?.mountOptions ?? {})
    .filter(([, options]) => options.includes(recursiveOption))
    .map(([path]) => path);
  return [...others.map((mount) => toMount(mount, snapshot, recursive)), ...images.map(toImageMount)];
}

/** From the label: Docker shows a volume, or a mount without the id of its image. */
function toImageMount({ containerPath, image, imageId, subPath }: ImageMount): Answer<Mount> {
  return {
    container_path: containerPath,
    readonly: true,
    image: { ...imageSpec(image), image_ref: imageId },
    image_sub_path: subPath,
  };
}

/** Paths of the request: kubelets find the file of the termination message by them. */
function toMount(
  mount: MountSnapshot,
  { requestedMounts }: Snapshot,
  recursive: readonly string[],
): Answer<Mount> {
  const requested = requestedMounts.find(({ target }) => cleanPath(target) === cleanPath(mount.destination));
  return {
    container_path: requested?.target ?? mount.destination,
    host_path: requested?.type === "bind" ? requested.source : mount.source,
    readonly: mount.readOnly,
    propagation: propagations[mount.propagation] ?? MountPropagation.PROPAGATION_PRIVATE,
    recursive_read_only:
      requested?.recursiveReadOnly === true || recursive.includes(cleanPath(mount.destination)),
  };
}

function resourcesOf(
  { id, snapshot }: Container,
  { records: { containers: containerRecords } }: Pick<Services, "records">,
): Answer<ContainerResources> {
  const { resources } = snapshot;
  const extra = containerRecords.get(id);
  return {
    linux: {
      cpu_period: String(resources.cpuPeriod),
      cpu_quota: String(resources.cpuQuota),
      cpu_shares: String(resources.cpuShares),
      memory_limit_in_bytes: isLifted(resources.memory) ? "0" : String(resources.memory),
      memory_swap_limit_in_bytes: isLifted(resources.memorySwap) ? "-1" : String(resources.memorySwap),
      cpuset_cpus: resources.cpusetCpus,
      cpuset_mems: resources.cpusetMems,
      oom_score_adj: String(resources.oomScoreAdj),
      unified: extra?.cgroup.unified ?? {},
      hugepage_limits: (extra?.cgroup.hugepages ?? []).map(({ pageSize, limitBytes }) => ({
        page_size: pageSize,
        limit: String(limitBytes),
      })),
    },
  };
}

/** Undefined until the user database of the image was read, after a container was created from it. */
function userOf(
  { snapshot }: Container,
  files: ImageUserFiles | undefined,
): Answer<ContainerUser> | undefined {
  if (files === undefined) return undefined;
  // A container with a user that the image does not know cannot start, and has no ids.
  const user = files.resolve(snapshot.user);
  if (user === undefined) return undefined;
  const groups = new Set([user.gid, ...user.supplementaryGroups, ...snapshot.groupAdd.map(Number)]);
  return {
    linux: {
      uid: String(user.uid),
      gid: String(user.gid),
      supplemental_groups: [...groups].filter((gid) => Number.isInteger(gid)).map(String),
    },
  };
}

function verboseInfo({ sandboxId, snapshot }: Container): Record<string, unknown> {
  return {
    sandboxID: sandboxId,
    pid: snapshot.state.pid,
    dockerName: snapshot.name,
    cgroupParent: snapshot.cgroupParent,
    privileged: snapshot.privileged,
    runtime: snapshot.runtime,
    oomKilled: snapshot.state.oomKilled,
  };
}
