/** Requests for which the bodies of test/golden/create-bodies.json were recorded. */
import type { LinuxPodSandboxConfig, NamespaceOption } from "../../../src/domain/cri.js";
import { containerResources as resources, imageSpec } from "../../fakes/requests.js";
import {
  containerConfig,
  containerLinux,
  containerSecurity,
  device,
  mount,
  namespaces,
  sandboxLinux,
  sandboxSecurity,
} from "./builders.js";

export const cgroupParent = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-poduid1.slice";

/** "sandbox: full" */
export function recordedLinux(options: Partial<NamespaceOption> = {}): LinuxPodSandboxConfig {
  return sandboxLinux({
    cgroup_parent: cgroupParent,
    sysctls: { "net.core.somaxconn": "1024" },
    security_context: sandboxSecurity({
      namespace_options: namespaces(options),
      selinux_options: { user: "u", role: "r", type: "t", level: "s0:c1,c2" },
      run_as_user: { value: "1000" },
      run_as_group: { value: "3000" },
      readonly_rootfs: true,
      supplemental_groups: ["5", "6"],
      privileged: true,
    }),
  });
}

/** "container: full" */
export const recordedContainer = (
  security: Parameters<typeof containerSecurity>[0] = {},
): ReturnType<typeof containerConfig> =>
  containerConfig({
    image: imageSpec(`sha256:${"ab".repeat(32)}`),
    command: ["/bin/sh", "-c"],
    args: ["sleep 1"],
    working_dir: "/w",
    envs: ["A=b=c", "E="].map((text) => ({ key: text.slice(0, 1), value: Buffer.from(text.slice(2)) })),
    mounts: [
      mount({ host_path: "/h", container_path: "/c" }),
      mount({
        host_path: "/h2",
        container_path: "/c2",
        readonly: true,
        selinux_relabel: true,
        propagation: 1,
      }),
      mount({ host_path: "/h3", container_path: "/c3", propagation: 2 }),
    ],
    devices: [device()],
    labels: { "io.kubernetes.container.name": "c1" },
    annotations: { k: "v" },
    log_path: "c1/0.log",
    stdin: true,
    stdin_once: true,
    tty: true,
    linux: containerLinux({
      resources: resources({
        cpu_period: "100000",
        cpu_quota: "50000",
        cpu_shares: "512",
        memory_limit_in_bytes: "104857600",
        oom_score_adj: "900",
        cpuset_cpus: "0-1",
        cpuset_mems: "0",
      }),
      security_context: containerSecurity({
        capabilities: {
          add_capabilities: ["NET_ADMIN"],
          drop_capabilities: ["ALL"],
          add_ambient_capabilities: [],
        },
        namespace_options: namespaces({ pid: 1 }),
        selinux_options: { user: "", role: "", type: "", level: "s0" },
        run_as_user: { value: "0" },
        run_as_group: { value: "7" },
        supplemental_groups: ["8"],
        readonly_rootfs: true,
        no_new_privs: true,
        masked_paths: ["/proc/kcore"],
        readonly_paths: ["/proc/bus"],
        apparmor_profile: "localhost/prof",
        seccomp_profile_path: "runtime/default",
        ...security,
      }),
    }),
  });
