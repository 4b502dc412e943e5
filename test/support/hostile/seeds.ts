/**
 * One request that is right, for each RPC that does something with its fields. What has no seed is invented.
 */
import type { Answer, ContainerConfig, PodSandboxConfig } from "../../../src/domain/cri.js";

export interface Node {
  /** A fresh one at each call. */
  readonly podConfig: () => Answer<PodSandboxConfig>;
  readonly containerConfig: () => Answer<ContainerConfig>;
  /** A pod that is ready and a container of it that runs. */
  readonly sandboxId: string;
  readonly sandboxConfig: Answer<PodSandboxConfig>;
  readonly containerId: string;
  readonly image: string;
  readonly directory: string;
}

export function seedOf(rpc: string, node: Node): object | undefined {
  const { sandboxId, containerId, image } = node;
  const container = { container_id: containerId };
  const sandbox = { pod_sandbox_id: sandboxId };
  const streams = { ...container, stdout: true, stderr: true, stdin: true, tty: false };
  const resources = {
    ...{ cpu_period: 100_000, cpu_quota: 50_000, cpu_shares: 512, memory_limit_in_bytes: 64 << 20 },
    ...{ oom_score_adj: 500, cpuset_cpus: "0", cpuset_mems: "0", unified: {}, memory_swap_limit_in_bytes: 0 },
    hugepage_limits: [{ page_size: "2MB", limit: 0 }],
  };
  const identity = { run_as_user: { value: 1000 }, run_as_group: { value: 1000 }, supplemental_groups: [7] };
  const seeds: Readonly<Record<string, () => object>> = {
    Version: () => ({ version: "v1" }),
    RunPodSandbox: () => ({
      config: {
        ...node.podConfig(),
        hostname: "web",
        dns_config: { servers: ["10.0.0.10"], searches: ["svc.local"], options: ["ndots:5"] },
        port_mappings: [{ protocol: 0, container_port: 80, host_port: 0, host_ip: "" }],
        annotations: { note: "x" },
        linux: {
          sysctls: { "net.ipv4.ip_unprivileged_port_start": "80" },
          security_context: {
            ...{ namespace_options: { network: 0, pid: 1, ipc: 0 }, seccomp: { profile_type: 1 } },
            selinux_options: { level: "s0" },
          },
        },
      },
      runtime_handler: "",
    }),
    StopPodSandbox: () => ({ pod_sandbox_id: "f".repeat(64) }),
    RemovePodSandbox: () => ({ pod_sandbox_id: "f".repeat(64) }),
    PodSandboxStatus: () => ({ ...sandbox, verbose: true }),
    ListPodSandbox: () => ({ filter: { id: sandboxId, state: { state: 0 }, label_selector: { a: "b" } } }),
    StreamPodSandboxes: () => ({ filter: { id: sandboxId, state: { state: 0 }, label_selector: {} } }),
    CreateContainer: () => ({
      ...sandbox,
      sandbox_config: node.sandboxConfig,
      config: {
        ...node.containerConfig(),
        ...{ args: ["1000"], working_dir: "/tmp", envs: [{ key: "A", value: Buffer.from("b") }] },
        mounts: [{ host_path: node.directory, container_path: "/mnt", readonly: true, propagation: 0 }],
        devices: [{ host_path: "/dev/null", container_path: "/dev/x", permissions: "rwm" }],
        annotations: { note: "x" },
        linux: {
          resources,
          security_context: {
            ...identity,
            ...{ capabilities: { add_capabilities: ["CHOWN"], drop_capabilities: ["KILL"] } },
            ...{ namespace_options: { network: 0, pid: 1, ipc: 0 }, masked_paths: ["/proc/kcore"] },
            ...{ readonly_rootfs: true, no_new_privs: true, seccomp: { profile_type: 1 } },
          },
        },
      },
    }),
    StartContainer: () => container,
    StopContainer: () => ({ container_id: "f".repeat(64), timeout: 1 }),
    RemoveContainer: () => ({ container_id: "f".repeat(64) }),
    ListContainers: () => ({ filter: { id: containerId, state: { state: 1 }, pod_sandbox_id: sandboxId } }),
    StreamContainers: () => ({ filter: { id: containerId, state: { state: 1 }, pod_sandbox_id: sandboxId } }),
    ContainerStatus: () => ({ ...container, verbose: true }),
    UpdateContainerResources: () => ({ ...container, linux: resources }),
    UpdatePodSandboxResources: () => ({ ...sandbox, overhead: resources, resources }),
    ReopenContainerLog: () => container,
    ExecSync: () => ({ ...container, cmd: ["true"], timeout: 5 }),
    Exec: () => ({ ...streams, cmd: ["true"] }),
    Attach: () => streams,
    PortForward: () => ({ ...sandbox, port: [80] }),
    ContainerStats: () => container,
    ListContainerStats: () => ({ filter: { id: containerId, pod_sandbox_id: sandboxId } }),
    PodSandboxStats: () => sandbox,
    ListPodSandboxStats: () => ({ filter: { id: sandboxId } }),
    CheckpointContainer: () => ({ ...container, location: `${node.directory}/checkpoint.tar`, timeout: 5 }),
    UpdateRuntimeConfig: () => ({ runtime_config: { network_config: { pod_cidr: "10.99.0.0/24" } } }),
    Status: () => ({ verbose: true }),
    ListImages: () => ({ filter: { image: { image } } }),
    ImageStatus: () => ({ image: { image }, verbose: true }),
    PullImage: () => ({
      image: { image: "127.0.0.1:1/none:1", annotations: {} },
      auth: { username: "u", password: "p" },
      sandbox_config: node.sandboxConfig,
    }),
    RemoveImage: () => ({ image: { image: "dockershim.test/none:1" } }),
  };
  return seeds[rpc]?.();
}
