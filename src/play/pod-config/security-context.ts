/** securityContext of pod and container → the CRI's, merged as the kubelet does. */
import { posix } from "node:path";
import { ShimError } from "../../lib/errors.js";
import type {
  Answer,
  Image,
  LinuxContainerSecurityContext,
  LinuxSandboxSecurityContext,
  NamespaceOption,
  SecurityProfile,
} from "../../domain/cri.js";
import { NamespaceMode, SecurityProfileProfileType, SupplementalGroupsPolicy } from "../../domain/cri.js";
import type { PodSpec, Profile } from "../manifests/pod-schema.js";
import type { PodContainer } from "./resources.js";

/** Paths that the kubelet masks or makes read-only unless procMount is Unmasked. */
const maskedPaths = [
  "/proc/asound",
  "/proc/acpi",
  "/proc/interrupts",
  "/proc/kcore",
  "/proc/keys",
  "/proc/latency_stats",
  "/proc/timer_list",
  "/proc/timer_stats",
  "/proc/sched_debug",
  "/proc/scsi",
  "/sys/firmware",
  "/sys/devices/virtual/powercap",
];
const readonlyPaths = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

export function namespaceOptions(spec: PodSpec): Answer<NamespaceOption> {
  const ownPid = spec.shareProcessNamespace === true ? NamespaceMode.POD : NamespaceMode.CONTAINER;
  return {
    network: spec.hostNetwork === true ? NamespaceMode.NODE : NamespaceMode.POD,
    ipc: spec.hostIPC === true ? NamespaceMode.NODE : NamespaceMode.POD,
    pid: spec.hostPID === true ? NamespaceMode.NODE : ownPid,
  };
}

/** In a pod that shares its processes, or the node's, all see them anyway. */
function withTarget(options: Answer<NamespaceOption>, targetId: string | undefined): Answer<NamespaceOption> {
  if (targetId === undefined || options.pid !== NamespaceMode.CONTAINER) return options;
  return { ...options, pid: NamespaceMode.TARGET, target_id: targetId };
}

export function sandboxSecurityContext(spec: PodSpec): Answer<LinuxSandboxSecurityContext> {
  const context = spec.securityContext ?? {};
  const containers = [...(spec.initContainers ?? []), ...spec.containers];
  return {
    namespace_options: namespaceOptions(spec),
    privileged: containers.some((container) => container.securityContext?.privileged === true),
    // As with the kubelet: the sandbox only runs the pause program.
    seccomp: { profile_type: SecurityProfileProfileType.RuntimeDefault },
    ...groups(spec),
    ...(context.runAsUser === undefined ? {} : { run_as_user: { value: String(context.runAsUser) } }),
    ...(context.runAsGroup === undefined ? {} : { run_as_group: { value: String(context.runAsGroup) } }),
    ...(context.seLinuxOptions === undefined ? {} : { selinux_options: context.seLinuxOptions }),
  };
}

export interface ContainerSecurityInput {
  readonly container: PodContainer;
  readonly spec: PodSpec;
  readonly image: Pick<Image, "uid" | "username">;
  readonly seccompDirectory: string;
  /** The container whose processes this one sees, by id. */
  readonly targetId?: string;
}

export function containerSecurityContext(
  input: ContainerSecurityInput,
): Answer<LinuxContainerSecurityContext> {
  const { container, spec, seccompDirectory } = input;
  const own = container.securityContext ?? {};
  const pod = spec.securityContext ?? {};
  const unmasked = own.procMount === "Unmasked";
  const appArmor = own.appArmorProfile ?? pod.appArmorProfile;
  const seLinux = own.seLinuxOptions ?? pod.seLinuxOptions;
  const group = own.runAsGroup ?? pod.runAsGroup;
  return {
    ...user(input),
    ...groups(spec),
    ...(group === undefined ? {} : { run_as_group: { value: String(group) } }),
    namespace_options: withTarget(namespaceOptions(spec), input.targetId),
    privileged: own.privileged ?? false,
    readonly_rootfs: own.readOnlyRootFilesystem ?? false,
    no_new_privs: own.allowPrivilegeEscalation === false,
    capabilities: {
      add_capabilities: own.capabilities?.add ?? [],
      drop_capabilities: own.capabilities?.drop ?? [],
    },
    seccomp: seccompProfile(own.seccompProfile ?? pod.seccompProfile, seccompDirectory),
    masked_paths: unmasked ? [] : maskedPaths,
    readonly_paths: unmasked ? [] : readonlyPaths,
    ...(appArmor === undefined ? {} : appArmorProfile(appArmor)),
    ...(seLinux === undefined ? {} : { selinux_options: seLinux }),
  };
}

/** runAsUser, else the image's user, else root. Throws when runAsNonRoot forbids that. */
function user({ container, spec, image }: ContainerSecurityInput): Answer<LinuxContainerSecurityContext> {
  const own = container.securityContext ?? {};
  const pod = spec.securityContext ?? {};
  const nonRoot = own.runAsNonRoot ?? pod.runAsNonRoot ?? false;
  const refuse = (reason: string): ShimError =>
    new ShimError("invalid", `start container "${container.name}": runAsNonRoot is set, but ${reason}`);
  const uid = own.runAsUser ?? pod.runAsUser;
  if (uid !== undefined) {
    if (nonRoot && uid === 0) throw refuse("runAsUser is 0");
    return { run_as_user: { value: String(uid) } };
  }
  if (image.uid !== null) {
    if (nonRoot && image.uid.value === "0") throw refuse(`the image "${container.image}" runs as root`);
    return { run_as_user: { value: image.uid.value } };
  }
  if (image.username === "") {
    if (nonRoot) throw refuse(`the image "${container.image}" runs as root`);
    return { run_as_user: { value: "0" } };
  }
  if (nonRoot)
    throw refuse(`the image's user "${image.username}" is not a number and may be root: set runAsUser`);
  return { run_as_username: image.username };
}

function groups(spec: PodSpec): {
  readonly supplemental_groups: readonly string[];
  readonly supplemental_groups_policy: SupplementalGroupsPolicy;
} {
  const { fsGroup, supplementalGroups = [], supplementalGroupsPolicy } = spec.securityContext ?? {};
  return {
    supplemental_groups: [...(fsGroup === undefined ? [] : [fsGroup]), ...supplementalGroups].map(String),
    supplemental_groups_policy:
      supplementalGroupsPolicy === "Strict"
        ? SupplementalGroupsPolicy.Strict
        : SupplementalGroupsPolicy.Merge,
  };
}

/** Kubernetes' default is unconfined. */
function seccompProfile(profile: Profile | undefined, directory: string): Answer<SecurityProfile> {
  if (profile === undefined) return { profile_type: SecurityProfileProfileType.Unconfined };
  const { localhostProfile = "" } = profile;
  return {
    profile_type: SecurityProfileProfileType[profile.type],
    localhost_ref: profile.type === "Localhost" ? posix.join(directory, localhostProfile) : "",
  };
}

/** Sets the current field and the deprecated field, for older runtimes. */
function appArmorProfile(profile: Profile): Answer<LinuxContainerSecurityContext> {
  const { localhostProfile = "" } = profile;
  const old = {
    RuntimeDefault: "runtime/default",
    Unconfined: "unconfined",
    Localhost: `localhost/${localhostProfile}`,
  };
  return {
    apparmor: { profile_type: SecurityProfileProfileType[profile.type], localhost_ref: localhostProfile },
    apparmor_profile: old[profile.type],
  };
}
