/**
 * Requests and facts for the tests of plans and validation: everything at its proto3 default but for what a
 * test names.
 */
import type {
  ContainerConfig,
  Device,
  LinuxContainerConfig,
  LinuxContainerSecurityContext,
  LinuxPodSandboxConfig,
  LinuxSandboxSecurityContext,
  Mount,
  NamespaceOption,
  PodSandboxConfig,
} from "../../../src/domain/cri.js";
import type { NodeFacts } from "../../../src/domain/node-facts.js";
import type {
  SandboxConfig,
  ValidContainerConfig,
  ValidCreateContainer,
  ValidRunPodSandbox,
} from "../../../src/domain/requests.js";
import type { ContainerContext } from "../../../src/shim/plan/container-plan.js";
import type { SandboxContext } from "../../../src/shim/plan/sandbox-plan.js";
import { nodeFacts as fakeNodeFacts } from "../../fakes/node-facts.js";
import {
  containerConfig as usualContainerConfig,
  containerSecurity as usualContainerSecurity,
  sandboxSecurity as usualSandboxSecurity,
} from "../../fakes/requests.js";

/** With a runtime whose mounts can be read-only throughout, and one whose cannot. */
export function nodeFacts(overrides: Partial<NodeFacts> = {}): NodeFacts {
  return fakeNodeFacts({
    runtimes: [
      { name: "runc", kind: "runc", recursiveReadOnly: true },
      { name: "runsc", kind: "ownShim", recursiveReadOnly: false },
    ],
    security: { apparmor: true, seccomp: true, selinux: false, usernsRemap: false, rootless: false },
    ...overrides,
  });
}

export function sandboxSecurity(
  overrides: Partial<LinuxSandboxSecurityContext> = {},
): LinuxSandboxSecurityContext {
  return usualSandboxSecurity({ namespace_options: null, ...overrides });
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
    allowedAnnotations: [],
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

export function containerSecurity(
  overrides: Partial<LinuxContainerSecurityContext> = {},
): LinuxContainerSecurityContext {
  return usualContainerSecurity({ namespace_options: null, ...overrides });
}

export function containerLinux(overrides: Partial<LinuxContainerConfig> = {}): LinuxContainerConfig {
  return { resources: null, security_context: null, ...overrides };
}

export function containerConfig<Overrides extends Partial<ContainerConfig>>(
  overrides: Overrides,
): ValidContainerConfig & Overrides {
  const metadata = { name: "c1", attempt: 1 };
  const empty = { command: [], labels: {}, annotations: {}, log_path: "" };
  return { ...usualContainerConfig({ metadata, ...empty }), ...overrides };
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
    defaultUlimits: [],
    allowedAnnotations: [],
    oneContainerdShimPerPod: true,
    oomScoreAdj: (wanted) => wanted,
    resolveContainer: (id) => `full-${id}`,
    ...overrides,
  };
}
