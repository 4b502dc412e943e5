/** Requests and facts for the tests of plans and validation: everything at its proto3 default but for what a test names. */
import type {
  ContainerConfig,
  Device,
  LinuxContainerConfig,
  LinuxContainerResources,
  LinuxContainerSecurityContext,
  LinuxPodSandboxConfig,
  LinuxSandboxSecurityContext,
  Mount,
  NamespaceOption,
  PodSandboxConfig,
} from "../../../src/shim/domain/cri.js";
import type { NodeFacts } from "../../../src/shim/domain/node-facts.js";
import type {
  SandboxConfig,
  ValidContainerConfig,
  ValidCreateContainer,
  ValidRunPodSandbox,
} from "../../../src/shim/domain/requests.js";
import type { ContainerContext } from "../../../src/shim/plan/container-plan.js";
import type { SandboxContext } from "../../../src/shim/plan/sandbox-plan.js";

export function nodeFacts(overrides: Partial<NodeFacts> = {}): NodeFacts {
  return {
    engineVersion: "20.10.24",
    apiMinor: 41,
    engineApiVersion: "1.41",
    operatingSystem: "Debian GNU/Linux 12",
    kernelVersion: "6.1.0-18-amd64",
    architecture: "amd64",
    cgroupDriver: "cgroupfs",
    cgroupVersion: 1,
    dockerRootDir: "/var/lib/docker",
    imageStore: "graph",
    storageDriver: "overlay2",
    loggingDriver: "json-file",
    runtimes: [
      { name: "runc", recursiveReadOnly: true },
      { name: "runsc", recursiveReadOnly: false },
    ],
    defaultRuntime: "runc",
    security: { apparmor: true, seccomp: true, selinux: false, usernsRemap: false, rootless: false },
    experimental: false,
    cdi: false,
    cdiSpecDirs: [],
    totalMemory: 8 * 2 ** 30,
    engineId: "engine",
    ...overrides,
  };
}

export function sandboxSecurity(
  overrides: Partial<LinuxSandboxSecurityContext> = {},
): LinuxSandboxSecurityContext {
  return {
    namespace_options: null,
    selinux_options: null,
    run_as_user: null,
    run_as_group: null,
    readonly_rootfs: false,
    supplemental_groups: [],
    supplemental_groups_policy: 0,
    privileged: false,
    seccomp: null,
    apparmor: null,
    seccomp_profile_path: "",
    ...overrides,
  };
}

export function sandboxLinux(overrides: Partial<LinuxPodSandboxConfig> = {}): LinuxPodSandboxConfig {
  return {
    cgroup_parent: "",
    security_context: null,
    sysctls: {},
    overhead: null,
    resources: null,
    ...overrides,
  };
}

export function podConfig<Overrides extends Partial<PodSandboxConfig>>(
  overrides: Overrides,
): SandboxConfig & Overrides {
  return {
    metadata: { name: "web-0", namespace: "default", uid: "uid-1", attempt: 2 },
    hostname: "",
    log_directory: "",
    dns_config: null,
    port_mappings: [],
    labels: {},
    annotations: {},
    linux: null,
    windows: null,
    ...overrides,
  };
}

export function runRequest(config: Partial<SandboxConfig> = {}, runtimeHandler = ""): ValidRunPodSandbox {
  return { config: podConfig(config), runtime_handler: runtimeHandler };
}

export function sandboxContext(overrides: Partial<SandboxContext> = {}): SandboxContext {
  return {
    facts: nodeFacts(),
    network: { name: "kubernetes.io/no-op", dockerNetworkMode: "default", dockerPublishesPorts: true },
    pauseImage: "registry.example/pause:1",
    oomScoreAdj: (wanted) => wanted,
    apiOnlyDns: false,
    ...overrides,
  };
}

export function namespaces(overrides: Partial<NamespaceOption> = {}): NamespaceOption {
  return { network: 0, pid: 0, ipc: 0, target_id: "", userns_options: null, ...overrides };
}

export function mount(overrides: Partial<Mount> = {}): Mount {
  return {
    container_path: "/data",
    host_path: "/srv/data",
    readonly: false,
    selinux_relabel: false,
    propagation: 0,
    uidMappings: [],
    gidMappings: [],
    recursive_read_only: false,
    image: null,
    image_sub_path: "",
    mount_options: [],
    ...overrides,
  };
}

export function device(overrides: Partial<Device> = {}): Device {
  return { container_path: "/dev/fuse", host_path: "/dev/fuse", permissions: "rwm", ...overrides };
}

export function resources(overrides: Partial<LinuxContainerResources> = {}): LinuxContainerResources {
  return {
    cpu_period: "0",
    cpu_quota: "0",
    cpu_shares: "0",
    memory_limit_in_bytes: "0",
    oom_score_adj: "0",
    cpuset_cpus: "",
    cpuset_mems: "",
    hugepage_limits: [],
    unified: {},
    memory_swap_limit_in_bytes: "0",
    ...overrides,
  };
}

export function containerSecurity(
  overrides: Partial<LinuxContainerSecurityContext> = {},
): LinuxContainerSecurityContext {
  return {
    capabilities: null,
    privileged: false,
    namespace_options: null,
    selinux_options: null,
    run_as_user: null,
    run_as_group: null,
    run_as_username: "",
    readonly_rootfs: false,
    supplemental_groups: [],
    supplemental_groups_policy: 0,
    no_new_privs: false,
    masked_paths: [],
    readonly_paths: [],
    seccomp: null,
    apparmor: null,
    apparmor_profile: "",
    seccomp_profile_path: "",
    ...overrides,
  };
}

export function containerLinux(overrides: Partial<LinuxContainerConfig> = {}): LinuxContainerConfig {
  return { resources: null, security_context: null, ...overrides };
}

export function containerConfig<Overrides extends Partial<ContainerConfig>>(
  overrides: Overrides,
): ValidContainerConfig & Overrides {
  return {
    metadata: { name: "c1", attempt: 1 },
    image: {
      image: "busybox",
      annotations: {},
      user_specified_image: "",
      runtime_handler: "",
      image_ref: "",
    },
    command: [],
    args: [],
    working_dir: "",
    envs: [],
    mounts: [],
    devices: [],
    labels: {},
    annotations: {},
    log_path: "",
    stdin: false,
    stdin_once: false,
    tty: false,
    linux: null,
    windows: null,
    CDI_devices: [],
    stop_signal: 0,
    ...overrides,
  };
}

export const sandboxId = "0".repeat(63) + "1";

export function createRequest(
  config: Partial<ValidContainerConfig> = {},
  pod: Partial<SandboxConfig> = {},
): ValidCreateContainer {
  return { pod_sandbox_id: sandboxId, config: containerConfig(config), sandbox_config: podConfig(pod) };
}

export function containerContext(overrides: Partial<ContainerContext> = {}): ContainerContext {
  return {
    facts: nodeFacts(),
    sandbox: {
      id: sandboxId,
      hostNetwork: false,
      snapshot: { pidMode: "", privileged: false, runtime: "runc" },
    },
    inputs: {},
    oomScoreAdj: (wanted) => wanted,
    resolveContainer: (id) => `full-${id}`,
    ...overrides,
  };
}
