/** Valid requests, complete, with what a test cares about on top. */
import { NamespaceMode } from "../../src/domain/cri.js";
import type {
  LinuxContainerResources,
  LinuxContainerSecurityContext,
  LinuxSandboxSecurityContext,
  NamespaceOption,
} from "../../src/domain/cri.js";
import type {
  SandboxConfig,
  ValidContainerConfig,
  ValidCreateContainer,
  ValidPullImage,
  ValidRunPodSandbox,
} from "../../src/domain/requests.js";

export function namespaceOptions(changes: Partial<NamespaceOption> = {}): NamespaceOption {
  const { POD, CONTAINER } = NamespaceMode;
  return { network: POD, pid: CONTAINER, ipc: POD, target_id: "", userns_options: null, ...changes };
}

export function sandboxSecurity(
  changes: Partial<LinuxSandboxSecurityContext> = {},
): LinuxSandboxSecurityContext {
  return {
    namespace_options: namespaceOptions(),
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
    ...changes,
  };
}

export function sandboxConfig(changes: Partial<SandboxConfig> = {}): SandboxConfig {
  return {
    metadata: { name: "web", namespace: "default", uid: "uid-1", attempt: 0 },
    hostname: "web",
    log_directory: "/var/log/pods/default_web_uid-1",
    dns_config: { servers: ["10.96.0.10"], searches: ["svc.cluster.local"], options: ["ndots:5"] },
    port_mappings: [],
    labels: { app: "web" },
    annotations: { note: "hello" },
    linux: {
      cgroup_parent: "",
      security_context: sandboxSecurity(),
      sysctls: {},
      overhead: null,
      resources: null,
    },
    windows: null,
    ...changes,
  };
}

export const podMetadata = (name: string) => ({ name, namespace: "default", uid: `uid-${name}`, attempt: 0 });

export function runRequest(changes: Partial<SandboxConfig> = {}, runtimeHandler = ""): ValidRunPodSandbox {
  return { config: sandboxConfig(changes), runtime_handler: runtimeHandler };
}

/** A sandbox in the network of the host. */
export function hostNetworkRequest(): ValidRunPodSandbox {
  const config = sandboxConfig();
  const security = sandboxSecurity({ namespace_options: namespaceOptions({ network: NamespaceMode.NODE }) });
  return {
    config: {
      ...config,
      linux: { cgroup_parent: "", sysctls: {}, overhead: null, resources: null, security_context: security },
    },
    runtime_handler: "",
  };
}

export function containerSecurity(
  changes: Partial<LinuxContainerSecurityContext> = {},
): LinuxContainerSecurityContext {
  return {
    capabilities: null,
    privileged: false,
    namespace_options: namespaceOptions(),
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
    ...changes,
  };
}

export function containerResources(changes: Partial<LinuxContainerResources> = {}): LinuxContainerResources {
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
    ...changes,
  };
}

/** With a limit that Docker cannot set. */
export const hugepages = {
  linux: {
    resources: containerResources({ hugepage_limits: [{ page_size: "2MB", limit: "4194304" }] }),
    security_context: null,
  },
};

export function containerConfig(changes: Partial<ValidContainerConfig> = {}): ValidContainerConfig {
  return {
    metadata: { name: "main", attempt: 0 },
    image: imageSpec("busybox"),
    command: ["sh"],
    args: [],
    working_dir: "",
    envs: [],
    mounts: [],
    devices: [],
    labels: { tier: "front" },
    annotations: { hash: "1" },
    log_path: "main/0.log",
    stdin: false,
    stdin_once: false,
    tty: false,
    linux: null,
    windows: null,
    CDI_devices: [],
    stop_signal: 0,
    ...changes,
  };
}

export function createRequest(
  sandboxId: string,
  changes: Partial<ValidContainerConfig> = {},
): ValidCreateContainer {
  return { pod_sandbox_id: sandboxId, config: containerConfig(changes), sandbox_config: sandboxConfig() };
}

export function imageSpec(image: string): ValidPullImage["image"] {
  return { image, annotations: {}, user_specified_image: "", runtime_handler: "", image_ref: "" };
}
