/** Plan of CreateContainer: the create body and what follows it, as data. */
import { ShimError } from "../../lib/errors.js";
import {
  type CreateBody,
  type DockerUlimit,
  type HostConfig,
  defined,
  noHealthcheck,
  unlessBlank,
  unlessEmpty,
} from "../../domain/create-body.js";
import type { ResolvedImageUser } from "../../domain/image-users.js";
import { formatImageMounts } from "../../domain/image-mounts.js";
import {
  imageNameLabel,
  containerType,
  imageMountsLabel,
  logPathLabel,
  sandboxIdLabel,
  toDockerLabels,
  typeLabel,
  type Labels,
} from "../../domain/labels.js";
import { parseReference } from "../../domain/image-reference.js";
import { alternativeName, containerName } from "../../domain/names.js";
import type { NodeFacts } from "../../domain/node-facts.js";
import { type OciChanges, ociRuntimeName, type UserNamespace } from "../../domain/oci-changes.js";
import type { ValidContainerConfig, ValidCreateContainer } from "../../domain/requests.js";
import { stopSignalName, gracePeriodSeconds } from "../../domain/stop-signal.js";
import type { CgroupSettings, FoundDevices, FoundMount } from "../ports/host.js";
import { appArmorOption, chooseAppArmor } from "./apparmor.js";
import { requestedCdiDevices } from "./cdi.js";
import { type CdiEdits, targetsOf } from "./cdi-edits.js";
import { cgroupParent, cgroupSettings } from "./cgroups.js";
import { engineInjectsCdi } from "./container-needs.js";
import { planDevices } from "./devices.js";
import { environment } from "./environment.js";
import { cgroupMountOptions, requestedUlimits } from "./fields-in-flight.js";
import { imageVolumeNeeds, type ImageVolumeSource } from "./image-volumes.js";
import { containerLogPath } from "./paths.js";
import { planMounts } from "./mounts.js";
import { containerNamespaceModes, type SandboxNamespaces } from "./namespaces.js";
import { composeLabels } from "./compose-labels.js";
import {
  allowedAnnotations,
  annotationsField,
  containerAnnotations,
  stopTimeoutProperty,
} from "./oci-annotations.js";
import { addedCapabilities, planOciChanges } from "./oci-changes.js";
import { createResources } from "./resources.js";
import { scopeAnnotations } from "./scope-properties.js";
import { chooseSeccomp, seccompOption } from "./seccomp.js";
import { securityOptions, securityContextField } from "./security-options.js";
import { ulimitsField } from "./ulimits.js";
import { userFields } from "./users.js";
import type { LinuxContainerSecurityContext } from "../../domain/cri.js";

export { containerNeeds, type ContainerNeeds } from "./container-needs.js";

/** Answers to `containerNeeds`. */
export interface ContainerInputs {
  readonly seccompProfile?: string | undefined;
  /** Undefined when the node's profiles cannot be read. */
  readonly loadedAppArmorProfiles?: ReadonlySet<string> | undefined;
  /** Undefined, or without a path, where the node cannot be examined: then the engine handles the path. */
  readonly hostPaths?: ReadonlyMap<string, FoundMount> | undefined;
  /** Host paths of which no directory is made when they are missing. */
  readonly absentToReject?: ReadonlySet<string> | undefined;
  /** By the index of the mount; undefined when the request has no image volumes. */
  readonly imageVolumes?: ReadonlyMap<number, ImageVolumeSource> | undefined;
  /** Host path → device nodes there; undefined, or without a path, where the node cannot be examined. */
  readonly devices?: ReadonlyMap<string, FoundDevices> | undefined;
  /** Where the engine injects the devices, only their environment; undefined when the node cannot be examined. */
  readonly cdi?: CdiEdits | undefined;
  /** Whether runc can limit hugepages on the node; asked for containers with such limits alone. */
  readonly limitsHugepages?: boolean;
  /** Undefined when the image has no such user; `tooLarge` when its files are not read. */
  readonly imageUser?: ResolvedImageUser | "tooLarge" | undefined;
}

export interface ContainerContext {
  readonly facts: NodeFacts;
  readonly sandbox: SandboxNamespaces & { readonly snapshot: { readonly runtime: string } };
  readonly inputs: ContainerInputs;
  readonly defaultUlimits: readonly DockerUlimit[];
  /** Prefixes of the keys of annotations that are meant for the OCI runtime. */
  readonly allowedAnnotations: readonly string[];
  /** Whether containers have labels that group them by pod. */
  readonly composeLabels?: boolean;
  /** With runc: containerd's shim of the sandbox runs the container, too. */
  readonly oneContainerdShimPerPod: boolean;
  /** The score that this host can give, for the one that is wanted. */
  readonly oomScoreAdj: (wanted: number) => number;
  /** Why the OCI runtime in front of runc cannot be used; undefined where it works, or nothing needs it. */
  readonly ociProblem?: string | undefined;
  /** Of the pod, if it has its own. */
  readonly podUsers?: UserNamespace | undefined;
  /** Full id of the container whose PID namespace is to be joined; throws when there is none. */
  readonly resolveContainer: (id: string) => string;
}

export interface ContainerPlan {
  readonly name: string;
  /** For when a container that cannot be removed has `name`; `random` is a uint32. */
  readonly alternativeName: (random: number) => string;
  readonly body: CreateBody;
  /** Absolute; `""` for none. */
  readonly logPath: string;
  /** To be written after each start; see `needsCgroup` for hosts where that is impossible. */
  readonly cgroup?: CgroupSettings;
  /** What the OCI runtime in front of runc adds to Docker's specification of the container. */
  readonly oci?: OciChanges;
}

/** As in dockershim and cri-dockerd; it matters only for containers with their own IPC namespace. */
const sharedMemoryBytes = 64 * 1024 * 1024;

export function planContainer(request: ValidCreateContainer, context: ContainerContext): ContainerPlan {
  const { config, sandbox_config } = request;
  const name = containerName(sandbox_config.metadata, config.metadata);
  const logPath = containerLogPath(sandbox_config.log_directory, config.log_path);
  const cgroup = cgroupSettings(config.linux?.resources, context.facts, "config.linux.resources");
  const oci = planOciChanges(config, cgroup, {
    facts: context.facts,
    runtime: context.sandbox.snapshot.runtime,
    problem: context.ociProblem,
    users: context.podUsers,
    limitsHugepages: context.inputs.limitsHugepages ?? false,
    cdi: context.inputs.cdi,
  });
  return defined({
    name,
    alternativeName: (random: number) => alternativeName(name, random),
    body: createBody(request, logPath, { cgroup, oci }, context),
    logPath,
    cgroup,
    oci,
  });
}

function createBody(
  request: ValidCreateContainer,
  logPath: string,
  beyondDocker: BeyondDocker,
  context: ContainerContext,
): CreateBody {
  const { config, sandbox_config } = request;
  const { User, GroupAdd } = userFields(config.linux?.security_context, context.inputs.imageUser);
  const cdi = cdiEdits(config, context);
  return defined({
    Image: config.image.image,
    User,
    Entrypoint: unlessEmpty(config.command),
    Cmd: unlessEmpty(config.args),
    Env: unlessEmpty(overrideEnvironment(environment(config.envs, "config.envs"), cdi.env)),
    WorkingDir: unlessBlank(config.working_dir),
    OpenStdin: config.stdin,
    StdinOnce: config.stdin_once,
    Tty: config.tty,
    StopSignal: stopSignalName(config.stop_signal),
    StopTimeout: gracePeriodSeconds(config.annotations),
    Healthcheck: noHealthcheck,
    Labels: {
      ...(context.composeLabels === true ? composeLabels(sandbox_config.metadata, config.metadata.name) : {}),
      ...toDockerLabels(config.labels, config.annotations, {
        [typeLabel]: containerType,
        [sandboxIdLabel]: context.sandbox.id,
        [logPathLabel]: logPath,
        ...imageNameLabels(config.image),
        ...imageMountsLabels(config, context.inputs.imageVolumes),
      }),
    },
    HostConfig: hostConfig(
      request,
      { groups: [...(GroupAdd ?? []), ...cdi.groups], cdi, ...beyondDocker },
      context,
    ),
  });
}

/** For the metrics: Docker keeps the id alone. */
function imageNameLabels({ image, user_specified_image: name }: ValidContainerConfig["image"]): Labels {
  return parseReference(image) === undefined && parseReference(name) !== undefined
    ? { [imageNameLabel]: name }
    : {};
}

function imageMountsLabels(
  { mounts }: ValidContainerConfig,
  sources: ReadonlyMap<number, ImageVolumeSource> | undefined,
): Labels {
  const imageMounts = imageVolumeNeeds(mounts).flatMap(({ index, containerPath, image, subPath }) => {
    const source = sources?.get(index);
    if (source === undefined) return [];
    const volume = "volume" in source.from ? source.from.volume : "";
    return [{ containerPath, image, imageId: source.imageId, subPath, volume }];
  });
  return imageMounts.length === 0 ? {} : { [imageMountsLabel]: formatImageMounts(imageMounts) };
}

interface BeyondDocker {
  readonly cgroup: CgroupSettings | undefined;
  readonly oci: OciChanges | undefined;
}

interface HostConfigParts extends BeyondDocker {
  readonly groups: readonly string[];
  readonly cdi: CdiEdits;
}

function hostConfig(
  request: ValidCreateContainer,
  { groups, cdi, cgroup, oci }: HostConfigParts,
  context: ContainerContext,
): HostConfig {
  const { config, sandbox_config } = request;
  const { facts, sandbox, inputs } = context;
  const security = config.linux?.security_context ?? null;
  const privileged = security?.privileged ?? false;
  const { runtime } = sandbox.snapshot;
  const resources = createResources(config.linux?.resources);
  const { Mounts, Binds } = planMounts(config.mounts, {
    facts,
    hostPaths: inputs.hostPaths,
    absentToReject: inputs.absentToReject,
    imageVolumes: inputs.imageVolumes,
    laterTargets: targetsOf(cdi),
  });
  return defined({
    ...containerNamespaceModes(security?.namespace_options, sandbox, {
      facts,
      privileged,
      resolveContainer: context.resolveContainer,
    }),
    CgroupParent: cgroupParent(
      sandbox_config.linux?.cgroup_parent ?? "",
      facts.cgroupDriver,
      "sandbox_config.linux.cgroup_parent",
    ),
    ...resources,
    OomScoreAdj: context.oomScoreAdj(Number(config.linux?.resources?.oom_score_adj ?? "0")),
    ShmSize: sharedMemoryBytes,
    RestartPolicy: { Name: "no" as const },
    Init: false,
    Mounts: unlessEmpty([...(Mounts ?? []), ...cdi.mounts]),
    Binds,
    Devices: unlessEmpty([...planDevices(config.devices, inputs.devices), ...cdi.devices]),
    DeviceRequests: deviceRequests(config, facts),
    GroupAdd: unlessEmpty([...new Set(groups)]),
    ReadonlyRootfs: security?.readonly_rootfs ?? false,
    Privileged: privileged,
    CapAdd: unlessEmpty(addedCapabilities(config)),
    CapDrop: unlessEmpty(security?.capabilities?.drop_capabilities ?? []),
    ...hiddenPaths(security, { ownUsers: context.podUsers !== undefined }),
    SecurityOpt: [...containerSecurityOptions(config, context), ...cgroupMountOptions(security, facts)],
    // Snapshots name the engine's default, too, which stays the engine's choice.
    Runtime: oci ? ociRuntimeName : runtime === facts.defaultRuntime ? undefined : unlessBlank(runtime),
    Ulimits: ulimitsField(context.defaultUlimits, requestedUlimits(security)),
    Annotations: annotationsField(
      {
        ...stopTimeoutProperty(gracePeriodSeconds(config.annotations), facts),
        ...allowedAnnotations([sandbox_config.annotations, config.annotations], context.allowedAnnotations),
        ...containerAnnotations(request, { id: sandbox.id, runtime }, context),
        ...scopeAnnotations(cgroup?.unified ?? {}, resources, facts),
      },
      facts,
    ),
  });
}

function containerSecurityOptions(
  config: ValidContainerConfig,
  context: ContainerContext,
): readonly string[] {
  const security = config.linux?.security_context ?? null;
  const { facts, inputs } = context;
  const request = security ?? { seccomp: null, seccomp_profile_path: "", apparmor: null };
  const seccomp = chooseSeccomp(request, { absent: "unconfined", field: securityContextField });
  return securityOptions({
    selinux: security?.selinux_options,
    appArmor: appArmorOption(
      chooseAppArmor(request, securityContextField),
      facts,
      inputs.loadedAppArmorProfiles,
    ),
    noNewPrivileges: security?.no_new_privs ?? false,
    // Newer engines would apply a profile to a privileged container, which the CRI rules out.
    seccomp: security?.privileged === true ? undefined : seccompOption(seccomp, inputs.seccompProfile),
  });
}

const noEdits: CdiEdits = { env: [], devices: [], mounts: [], groups: [] };

function cdiEdits(config: ValidContainerConfig, { facts, inputs }: ContainerContext): CdiEdits {
  if (inputs.cdi !== undefined) return inputs.cdi;
  if (requestedCdiDevices(config).length > 0 && !engineInjectsCdi(facts))
    throw new ShimError("internal", "CDI devices were not resolved before planning");
  return noEdits;
}

function deviceRequests(config: ValidContainerConfig, facts: NodeFacts): HostConfig["DeviceRequests"] {
  const names = requestedCdiDevices(config);
  if (names.length === 0 || !engineInjectsCdi(facts)) return undefined;
  return [{ Driver: "cdi", DeviceIDs: names }];
}

/** `entries` with `overrides`, each of which replaces the entries of its name that come before it. */
function overrideEnvironment(entries: readonly string[], overrides: readonly string[]): readonly string[] {
  const last = new Map(overrides.map((entry) => [nameOf(entry), entry]));
  return [...entries.filter((entry) => !last.has(nameOf(entry))), ...last.values()];
}

function nameOf(entry: string): string {
  const equals = entry.indexOf("=");
  return equals === -1 ? entry : entry.slice(0, equals);
}

/**
 * A request without any path may mean an unmasked /proc (`procMount: Unmasked`), or come from a client that
 * says nothing of it. It is taken at its word in a pod with users of its own, where Kubernetes allows no other
 * pod to be unmasked. Elsewhere it gets Docker's defaults. A privileged container hides nothing in any case.
 */
function hiddenPaths(
  security: Pick<LinuxContainerSecurityContext, "privileged" | "masked_paths" | "readonly_paths"> | null,
  { ownUsers }: { readonly ownUsers: boolean },
): Pick<HostConfig, "MaskedPaths" | "ReadonlyPaths"> {
  if (security?.privileged === true) return {};
  const { masked_paths: MaskedPaths = [], readonly_paths: ReadonlyPaths = [] } = security ?? {};
  return ownUsers || MaskedPaths.length + ReadonlyPaths.length > 0 ? { MaskedPaths, ReadonlyPaths } : {};
}
