import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { ShimError, type ErrorKind } from "../../../../src/lib/errors.js";
import type {
  ContainerConfig,
  KeyValue,
  LinuxContainerSecurityContext,
  LinuxSandboxSecurityContext,
  Mount,
  PodSandboxConfig,
} from "../../../../src/domain/cri.js";
import { containerNeeds, planContainer } from "../../../../src/shim/plan/container-plan.js";
import { validateRequest } from "../../../../src/shim/cri/rpcs.js";
import { containerResources as resources } from "../../../fakes/requests.js";
import {
  containerConfig,
  containerContext,
  containerLinux,
  containerSecurity,
  device,
  mount,
  namespaces,
  nodeFacts,
  podConfig,
  sandboxLinux,
  sandboxSecurity,
} from "../../plan/builders.js";
import { refusal } from "../../plan/errors.js";

const loose = { log_directory: "/var/log/pods/p" };

function run(config: Partial<PodSandboxConfig>): unknown {
  return validateRequest("RunPodSandbox", { config: { ...podConfig({}), ...config }, runtime_handler: "" });
}

function runSecurity(security: Partial<LinuxSandboxSecurityContext>): unknown {
  return run({ linux: sandboxLinux({ security_context: sandboxSecurity(security) }) });
}

function create(config: Partial<ContainerConfig>, pod: Partial<PodSandboxConfig> = loose): unknown {
  return validateRequest("CreateContainer", {
    pod_sandbox_id: "id",
    config: { ...containerConfig({}), ...config },
    sandbox_config: { ...podConfig({}), ...pod },
  });
}

function createSecurity(security: Partial<LinuxContainerSecurityContext>): unknown {
  return create({ linux: containerLinux({ security_context: containerSecurity(security) }) });
}

/** An image volume that is in order, but for what is overridden. */
function createImageMount(overrides: Partial<Mount>): unknown {
  return createMount({ host_path: "", image: image("a"), readonly: true, ...overrides });
}

function createMount(overrides: Partial<Mount>): unknown {
  return create({ mounts: [mount(), mount(overrides)] });
}

function image(name: string) {
  return { image: name, annotations: {}, user_specified_image: "", runtime_handler: "", image_ref: "" };
}

const metadata = { name: "web-0", namespace: "default", uid: "uid-1", attempt: 2 };
const port = { protocol: 0, container_port: 80, host_port: 80, host_ip: "" } as const;
const dns = { servers: [], searches: [], options: [] };
/** A number that no version of the protocol knows, as proto-loader hands it on. */
const unknown = 99 as never;
const long = "x".repeat(128 * 1024);
/** One byte more than the path of a program may have. */
const noProgram = `/${"é".repeat(2047)}x`;
/** The longest argument that the kernel takes. */
const longest = long.slice(1);
const emptyUpdate = { container_id: "c", linux: resources(), windows: null, annotations: {} };

interface Refused {
  readonly field: string;
  readonly call: () => unknown;
  readonly kind?: ErrorKind;
}

const refused: Readonly<Record<string, readonly Refused[]>> = {
  RunPodSandbox: [
    { field: "config", call: () => validateRequest("RunPodSandbox", { config: null, runtime_handler: "" }) },
    { field: "config.metadata", call: () => run({ metadata: null }) },
    { field: "config.metadata.name", call: () => run({ metadata: { ...metadata, name: "" } }) },
    { field: "config.metadata.name", call: () => run({ metadata: { ...metadata, name: "a/b" } }) },
    { field: "config.metadata.name", call: () => run({ metadata: { ...metadata, name: "x".repeat(254) } }) },
    { field: "config.metadata.namespace", call: () => run({ metadata: { ...metadata, namespace: "a\0b" } }) },
    { field: "config.metadata.uid", call: () => run({ metadata: { ...metadata, uid: "a b" } }) },
    { field: "config.hostname", call: () => run({ hostname: "h".repeat(65) }) },
    { field: "config.hostname", call: () => run({ hostname: "a\nb" }) },
    { field: "config.log_directory", call: () => run({ log_directory: "logs" }) },
    { field: "config.log_directory", call: () => run({ log_directory: "/var/log/../../etc" }) },
    {
      field: "config.dns_config.servers[0]",
      call: () => run({ dns_config: { ...dns, servers: ["1.1.1.1\nx"] } }),
    },
    { field: "config.dns_config.searches[0]", call: () => run({ dns_config: { ...dns, searches: [""] } }) },
    { field: "config.dns_config.options[0]", call: () => run({ dns_config: { ...dns, options: ["a b"] } }) },
    {
      field: "config.port_mappings[1].host_port",
      call: () => run({ port_mappings: [port, { ...port, host_port: 65536 }] }),
    },
    {
      field: "config.port_mappings[0].container_port",
      call: () => run({ port_mappings: [{ ...port, container_port: -1 }] }),
    },
    {
      field: "config.port_mappings[0].protocol",
      call: () => run({ port_mappings: [{ ...port, protocol: unknown }] }),
    },
    {
      field: "config.port_mappings[0].host_ip",
      call: () => run({ port_mappings: [{ ...port, host_ip: "localhost" }] }),
    },
    {
      field: "config.port_mappings[0].host_ip",
      call: () => run({ port_mappings: [{ ...port, host_ip: "fe80::1%eth0" }] }),
    },
    { field: "config.labels", call: () => run({ labels: { "dockershim.prefixed-labels": "[]" } }) },
    { field: "config.labels", call: () => run({ labels: { "io.kubernetes.docker.type": "container" } }) },
    {
      field: "config.linux.cgroup_parent",
      call: () => run({ linux: sandboxLinux({ cgroup_parent: "/a\0" }) }),
    },
    {
      field: "config.linux.sysctls",
      call: () => run({ linux: sandboxLinux({ sysctls: { "net/../x": "1" } }) }),
    },
    {
      field: "config.linux.sysctls[net.a]",
      call: () => run({ linux: sandboxLinux({ sysctls: { "net.a": "\0" } }) }),
    },
    {
      field: "config.linux.security_context.run_as_group",
      call: () => runSecurity({ run_as_group: { value: "1" } }),
    },
    {
      field: "config.linux.security_context.run_as_user",
      call: () => runSecurity({ run_as_user: { value: "2147483648" } }),
    },
    {
      field: "config.linux.security_context.supplemental_groups[0]",
      call: () => runSecurity({ supplemental_groups: ["-1"] }),
    },
    {
      field: "config.linux.security_context.namespace_options.network",
      call: () => runSecurity({ namespace_options: namespaces({ network: unknown }) }),
    },
    {
      field: "config.linux.security_context.namespace_options.pid",
      call: () => runSecurity({ namespace_options: namespaces({ pid: 3, target_id: "x" }) }),
    },
    {
      field: "config.linux.security_context.namespace_options.userns_options.mode",
      call: () =>
        runSecurity({ namespace_options: namespaces({ userns_options: { mode: 0, uids: [], gids: [] } }) }),
      kind: "unsupported",
    },
    {
      field: "config.linux.security_context.seccomp.profile_type",
      call: () => runSecurity({ seccomp: { profile_type: unknown, localhost_ref: "" } }),
    },
    {
      field: "config.linux.security_context.seccomp.localhost_ref",
      call: () => runSecurity({ seccomp: { profile_type: 2, localhost_ref: "p" } }),
    },
    {
      field: "config.linux.security_context.seccomp_profile_path",
      call: () => runSecurity({ seccomp_profile_path: "whatever" }),
    },
    {
      field: "config.linux.security_context.seccomp_profile_path",
      call: () => runSecurity({ seccomp_profile_path: "localhost//var/lib/kubelet/seccomp/../../x.json" }),
    },
    {
      field: "config.linux.security_context.seccomp.localhost_ref",
      call: () =>
        runSecurity({ seccomp: { profile_type: 2, localhost_ref: "/var/lib/kubelet/seccomp/../x" } }),
    },
    {
      field: "config.linux.security_context.apparmor.localhost_ref",
      call: () => runSecurity({ apparmor: { profile_type: 2, localhost_ref: "" } }),
    },
    {
      field: "config.linux.security_context.selinux_options.level",
      call: () => runSecurity({ selinux_options: { user: "", role: "", type: "", level: "a b" } }),
    },
  ],
  CreateContainer: [
    {
      field: "pod_sandbox_id",
      call: () =>
        validateRequest("CreateContainer", { pod_sandbox_id: "", config: null, sandbox_config: null }),
    },
    {
      field: "config",
      call: () =>
        validateRequest("CreateContainer", { pod_sandbox_id: "i", config: null, sandbox_config: null }),
    },
    {
      field: "sandbox_config",
      call: () =>
        validateRequest("CreateContainer", {
          pod_sandbox_id: "i",
          config: containerConfig({}),
          sandbox_config: null,
        }),
    },
    { field: "sandbox_config.metadata", call: () => create({}, { metadata: null }) },
    { field: "config.metadata", call: () => create({ metadata: null }) },
    { field: "config.metadata.name", call: () => create({ metadata: { name: "", attempt: 0 } }) },
    { field: "config.image", call: () => create({ image: null }) },
    { field: "config.image.image", call: () => create({ image: image("") }) },
    { field: "config.image.image", call: () => create({ image: image("a b") }) },
    { field: "config.command[1]", call: () => create({ command: ["a", long] }) },
    { field: "config.command[0]", call: () => create({ command: [noProgram, "a"] }) },
    { field: "config.args[0]", call: () => create({ args: ["a\0"] }) },
    { field: "config.args", call: () => create({ args: Array<string>(17).fill(longest) }) },
    {
      field: "config.envs",
      call: () =>
        create({
          args: Array<string>(8).fill(longest),
          envs: Array<KeyValue>(9).fill({ key: "A", value: Buffer.from(longest.slice(2)) }),
        }),
    },
    { field: "config.working_dir", call: () => create({ working_dir: "w" }) },
    { field: "config.envs[0].key", call: () => create({ envs: [{ key: "", value: Buffer.alloc(0) }] }) },
    { field: "config.envs[0].key", call: () => create({ envs: [{ key: "A=B", value: Buffer.alloc(0) }] }) },
    { field: "config.envs[0]", call: () => create({ envs: [{ key: "A", value: Buffer.from("a\0b") }] }) },
    { field: "config.envs[0]", call: () => create({ envs: [{ key: "A", value: Buffer.from(long) }] }) },
    {
      // A name of two bytes, and one byte too many in all.
      field: "config.envs[0]",
      call: () => create({ envs: [{ key: "é", value: Buffer.from(longest.slice(2)) }] }),
    },
    {
      field: "config.envs[0].value",
      call: () => create({ envs: [{ key: "A", value: Buffer.from([0xc3]) }] }),
      kind: "unsupported",
    },
    { field: "config.log_path", call: () => create({ log_path: "../x" }) },
    { field: "config.log_path", call: () => create({ log_path: "a/../../x" }) },
    { field: "config.log_path", call: () => create({ log_path: "." }) },
    { field: "config.log_path", call: () => create({ log_path: "/" }) },
    { field: "config.log_path", call: () => create({ log_path: "a\0" }) },
    { field: "config.labels", call: () => create({ labels: { "io.kubernetes.sandbox.id": "x" } }) },
    { field: "config.stop_signal", call: () => create({ stop_signal: unknown }) },
    { field: "config.CDI_devices[0].name", call: () => create({ CDI_devices: [{ name: "gpu" }] }) },
    {
      field: "config.devices[0].host_path",
      call: () => create({ devices: [device({ host_path: "dev/x" })] }),
    },
    {
      field: "config.devices[0].permissions",
      call: () => create({ devices: [device({ permissions: "rwx" })] }),
    },
    { field: "config.mounts[1].host_path", call: () => createMount({ host_path: "" }) },
    { field: "config.mounts[1].host_path", call: () => createMount({ host_path: "relative" }) },
    { field: "config.mounts[1].container_path", call: () => createMount({ container_path: "relative" }) },
    { field: "config.mounts[1].container_path", call: () => createMount({ container_path: "/a\0" }) },
    { field: "config.mounts[1].propagation", call: () => createMount({ propagation: unknown }) },
    {
      field: "config.mounts[1].mount_options",
      call: () => createMount({ mount_options: ["noexec"] }),
      kind: "unsupported",
    },
    {
      field: "config.mounts[1].uidMappings",
      call: () => createMount({ uidMappings: [{ host_id: 1, container_id: 0, length: 1 }] }),
      kind: "unsupported",
    },
    {
      field: "config.mounts[1].gidMappings",
      call: () => createMount({ gidMappings: [{ host_id: 1, container_id: 0, length: 1 }] }),
      kind: "unsupported",
    },
    { field: "config.mounts[1].host_path", call: () => createImageMount({ host_path: "/srv" }) },
    { field: "config.mounts[1].readonly", call: () => createImageMount({ readonly: false }) },
    { field: "config.mounts[1].propagation", call: () => createImageMount({ propagation: 2 }) },
    { field: "config.mounts[1].image.image", call: () => createImageMount({ image: image("a b") }) },
    ...["/etc", "..", "a/../../b", "a\0", "x".repeat(4097)].map((image_sub_path) => ({
      field: "config.mounts[1].image_sub_path",
      call: () => createImageMount({ image_sub_path }),
    })),
    { field: "config.mounts[1].recursive_read_only", call: () => createMount({ recursive_read_only: true }) },
    {
      field: "config.mounts[1].recursive_read_only",
      call: () => createMount({ recursive_read_only: true, readonly: true, propagation: 1 }),
    },
    {
      field: "config.linux.security_context.run_as_username",
      call: () => createSecurity({ run_as_username: "a:b" }),
    },
    {
      field: "config.linux.security_context.run_as_username",
      call: () => createSecurity({ run_as_username: "a", run_as_user: { value: "1" } }),
    },
    {
      field: "config.linux.security_context.run_as_group",
      call: () => createSecurity({ run_as_group: { value: "1" } }),
    },
    {
      field: "config.linux.security_context.supplemental_groups_policy",
      call: () => createSecurity({ supplemental_groups_policy: unknown }),
    },
    {
      field: "config.linux.security_context.namespace_options.target_id",
      call: () => createSecurity({ namespace_options: namespaces({ pid: 3 }) }),
    },
    {
      field: "config.linux.security_context.namespace_options.ipc",
      call: () => createSecurity({ namespace_options: namespaces({ ipc: 3, target_id: "x" }) }),
    },
    {
      field: "config.linux.security_context.masked_paths[0]",
      call: () => createSecurity({ masked_paths: ["proc"] }),
    },
    {
      field: "config.linux.security_context.capabilities.add_capabilities[0]",
      call: () =>
        createSecurity({
          capabilities: {
            add_capabilities: ["SYS ADMIN"],
            drop_capabilities: [],
            add_ambient_capabilities: [],
          },
        }),
    },
    {
      field: "config.linux.security_context.capabilities.add_ambient_capabilities",
      call: () =>
        createSecurity({
          capabilities: { add_capabilities: [], drop_capabilities: [], add_ambient_capabilities: ["CHOWN"] },
        }),
      kind: "unsupported",
    },
    ...(
      [
        ["memory_limit_in_bytes", { memory_limit_in_bytes: "-2" }],
        ["cpu_shares", { cpu_shares: "-1" }],
        ["cpu_period", { cpu_period: "1000001" }],
        ["oom_score_adj", { oom_score_adj: "1001" }],
        ["cpuset_cpus", { cpuset_cpus: "0-" }],
        ["memory_swap_limit_in_bytes", { memory_limit_in_bytes: "5", memory_swap_limit_in_bytes: "4" }],
        ["hugepage_limits[0].page_size", { hugepage_limits: [{ page_size: "2Mi", limit: "0" }] }],
        ["hugepage_limits[0].page_size", { hugepage_limits: [{ page_size: "../2MB", limit: "0" }] }],
        [
          "hugepage_limits[0].limit",
          { hugepage_limits: [{ page_size: "2MB", limit: "18446744073709551616" }] },
        ],
        ["unified", { unified: { "../memory.high": "1" } }],
        ["unified", { unified: { "cgroup.procs": "1" } }],
      ] as const
    ).map(([name, overrides]) => ({
      field: `config.linux.resources.${name}`,
      call: () => create({ linux: containerLinux({ resources: resources(overrides) }) }),
    })),
  ],
  "other RPCs": [
    { field: "pod_sandbox_id", call: () => validateRequest("StopPodSandbox", { pod_sandbox_id: "" }) },
    { field: "container_id", call: () => validateRequest("RemoveContainer", { container_id: "" }) },
    { field: "timeout", call: () => validateRequest("StopContainer", { container_id: "c", timeout: "x" }) },
    { field: "cmd", call: () => validateRequest("ExecSync", { container_id: "c", cmd: [], timeout: "0" }) },
    {
      field: "cmd",
      call: () =>
        validateRequest("ExecSync", {
          container_id: "c",
          cmd: Array<string>(17).fill(longest),
          timeout: "0",
        }),
    },
    ...(
      [
        ["container_id", { container_id: "" }],
        ["stderr", { tty: true }],
        ["stdin", { stdout: false, stderr: false }],
      ] as const
    ).flatMap(([field, change]) => {
      const streams = { container_id: "c", tty: false, stdin: false, stdout: true, stderr: true, ...change };
      return [
        { field, call: () => validateRequest("Exec", { cmd: ["x"], ...streams }) },
        { field, call: () => validateRequest("Attach", streams) },
      ];
    }),
    ...(
      [
        ["cmd", []],
        ["cmd[0]", [""]],
        ["cmd[0]", [noProgram]],
        ["cmd[1]", ["x", long]],
      ] as const
    ).map(([field, cmd]) => {
      const streams = { container_id: "c", tty: true, stdin: true, stdout: true, stderr: false };
      return { field, call: () => validateRequest("Exec", { cmd: [...cmd], ...streams }) };
    }),
    {
      field: "pod_sandbox_id",
      call: () => validateRequest("PortForward", { pod_sandbox_id: "", port: [80] }),
    },
    ...[0, -1, 65_536].map((port) => ({
      field: "port[1]",
      call: () => validateRequest("PortForward", { pod_sandbox_id: "s", port: [80, port] }),
    })),
    {
      field: "cmd[0]",
      call: () => validateRequest("ExecSync", { container_id: "c", cmd: [""], timeout: "0" }),
    },
    {
      field: "cmd[0]",
      call: () => validateRequest("ExecSync", { container_id: "c", cmd: [noProgram], timeout: "0" }),
    },
    {
      field: "cmd[1]",
      call: () => validateRequest("ExecSync", { container_id: "c", cmd: ["x", long], timeout: "0" }),
    },
    {
      field: "linux.memory_limit_in_bytes",
      call: () =>
        validateRequest("UpdateContainerResources", {
          ...emptyUpdate,
          linux: resources({ memory_limit_in_bytes: "-2" }),
        }),
    },
    { field: "image", call: () => validateRequest("ImageStatus", { image: null, verbose: false }) },
    { field: "image.image", call: () => validateRequest("RemoveImage", { image: image("") }) },
    ...["", "UPPER", "a:b:c", "ab".repeat(32), `sha256:${"ab".repeat(32)}`, "-a"].map((name) => ({
      field: "image.image",
      call: () => validateRequest("PullImage", { image: image(name), auth: null, sandbox_config: null }),
    })),
    {
      field: "filter.state.state",
      call: () =>
        validateRequest("ListPodSandbox", {
          filter: { id: "", state: { state: unknown }, label_selector: {} },
        }),
    },
    {
      field: "filter.state.state",
      call: () =>
        validateRequest("ListContainers", {
          filter: { id: "", pod_sandbox_id: "", state: { state: unknown }, label_selector: {} },
        }),
    },
    ...["10.0.0.0", "10.0.0.0/33", "10.0.0.0/24,x", "fd00::/129"].map((pod_cidr) => ({
      field: "runtime_config.network_config.pod_cidr",
      call: () =>
        validateRequest("UpdateRuntimeConfig", { runtime_config: { network_config: { pod_cidr } } }),
    })),
  ],
};

describe("validateRequest() refuses, naming the field", () => {
  for (const [rpc, entries] of Object.entries(refused)) {
    entries.forEach(({ field, call, kind = "invalid" }, index) => {
      test(`${rpc} ${String(index)}: ${field}`, () => {
        const literal = field.replace(/[.[\]]/g, "\\$&");
        assert.throws(call, refusal(kind, new RegExp(`^${literal}(:| ")`)));
      });
    });
  }

  test("without showing environment values, arguments, or more than the beginning of a name", () => {
    for (const call of [
      () => create({ envs: [{ key: "A", value: Buffer.from(`secret\0${long}`) }] }),
      () => create({ args: [`secret${long}`] }),
    ]) {
      assert.throws(call, (error) => error instanceof ShimError && !error.message.includes("secret"));
    }
    assert.throws(
      () => run({ metadata: { ...metadata, name: "n".repeat(1_000_000) } }),
      (error) => error instanceof ShimError && error.message.length < 300,
    );
  });
});

describe("validateRequest() lets pass", () => {
  const passing: Readonly<Record<string, () => unknown>> = {
    "a sandbox without linux": () => run({}),
    "dots in names": () => run({ metadata: { ...metadata, name: "a-b.c", uid: "" } }),
    "underscores in names, which crictl's users write": () =>
      run({ metadata: { name: "a_b", namespace: "c_", uid: "_d", attempt: 0 } }),
    "an underscore in a container's name": () => create({ metadata: { name: "a_b", attempt: 0 } }),
    "a name of 253 characters": () => run({ metadata: { ...metadata, name: "x".repeat(253) } }),
    "a program of the kernel's longest path": () =>
      create({ command: [noProgram.slice(0, -1), long.slice(1)] }),
    "an argument that is longer than a path": () => create({ args: [noProgram] }),
    "a host name of the kernel's longest": () => run({ hostname: "h".repeat(64) }),
    "an IPv6 host address": () => run({ port_mappings: [{ ...port, host_ip: "fd00::1" }] }),
    "the kubelet's labels": () =>
      run({ labels: { "io.kubernetes.container.name": "x", "io.kubernetes.pod.uid": "u" } }),
    "a label that begins as annotations do": () => run({ labels: { "annotation.x": "y" } }),
    "annotations of any name": () =>
      run({ annotations: { "io.kubernetes.docker.type": "x", "annotation.a": "" } }),
    "the node's user namespace": () =>
      runSecurity({ namespace_options: namespaces({ userns_options: { mode: 2, uids: [], gids: [] } }) }),
    "an argument of the kernel's longest": () => create({ args: [longest] }),
    "an environment entry of the kernel's longest, whose letters have two bytes": () =>
      create({ envs: [{ key: "é", value: Buffer.from("é".repeat(longest.length / 2 - 1)) }] }),
    "no log directory": () => create({ log_path: "x" }, { log_directory: "" }),
    "an image by id": () => create({ image: image(`sha256:${"ab".repeat(32)}`) }),
    "capabilities with and without prefix": () =>
      createSecurity({
        capabilities: {
          add_capabilities: ["CAP_CHOWN"],
          drop_capabilities: ["ALL"],
          add_ambient_capabilities: [],
        },
      }),
    "what kubelets send about hugepages": () =>
      create({
        linux: containerLinux({
          resources: resources({ hugepage_limits: [{ page_size: "1GB", limit: "0" }] }),
        }),
      }),
    "a directory of an image as a volume": () => createImageMount({ image_sub_path: "a/..b/./c" }),
    "an empty image message of a mount of the node": () => createMount({ image: image("") }),
    "the subPath of a mount of the node, which kubelets name here, too": () =>
      createMount({ host_path: "/srv/data/a", image_sub_path: "a" }),
    "an unknown image's status": () =>
      validateRequest("ImageStatus", { image: image("No/Such:IMAGE"), verbose: false }),
    "both families of pod CIDRs": () =>
      validateRequest("UpdateRuntimeConfig", {
        runtime_config: { network_config: { pod_cidr: "10.1.0.0/16,fd00::/64" } },
      }),
    "an update without runtime configuration": () =>
      validateRequest("UpdateRuntimeConfig", { runtime_config: null }),
    "a negative timeout of a stop": () =>
      validateRequest("StopContainer", { container_id: "c", timeout: "-1" }),
    "a list without filter": () => validateRequest("ListContainers", { filter: null }),
    "a pod with an empty message for Windows": () => run({ windows: { security_context: null } }),
    "a container with an empty message for Windows": () =>
      create({ windows: { resources: null, security_context: null } }),
    "an update without resources": () =>
      validateRequest("UpdateContainerResources", { ...emptyUpdate, linux: null }),
  };
  for (const [what, call] of Object.entries(passing)) {
    test(what, () => {
      assert.ok(call());
    });
  }
});

test("a filter without members is none, in each RPC that has filters", () => {
  const ofPods = { id: "", state: null, label_selector: {} };
  const ofPodStats = { id: "", label_selector: {} };
  const ofContainers = { ...ofPods, pod_sandbox_id: "" };
  const ofContainerStats = { ...ofPodStats, pod_sandbox_id: "" };
  for (const [name, empty, member] of [
    ["ListPodSandbox", ofPods, { state: { state: 0 } }],
    ["StreamPodSandboxes", ofPods, { label_selector: { app: "" } }],
    ["ListContainers", ofContainers, { state: { state: 0 } }],
    ["StreamContainers", ofContainers, { pod_sandbox_id: "a" }],
    ["ListContainerStats", ofContainerStats, { id: "a" }],
    ["StreamContainerStats", ofContainerStats, { id: "a" }],
    ["ListPodSandboxStats", ofPodStats, { id: "a" }],
    ["StreamPodSandboxStats", ofPodStats, { id: "a" }],
    ["ListImages", { image: null }, { image: image("a") }],
    ["StreamImages", { image: null }, { image: image("a") }],
  ] as const) {
    const valid = (filter: unknown): unknown => validateRequest(name, { filter } as never);
    assert.deepEqual(valid(null), { filter: null }, name);
    assert.deepEqual(valid(empty), { filter: null }, name);
    assert.deepEqual(valid({ ...empty, ...member }), { filter: { ...empty, ...member } }, name);
  }
});

test("whatever the strings of a request hold, it is planned or refused by a ShimError", () => {
  const text = fc.oneof(
    fc.string(),
    fc.constantFrom("", "/", "..", "/dev/../x", "localhost/", "localhost//x", "0", "-1", "a:b"),
  );
  // Mostly what is right, so that a wrong value is met at every check, also the late ones.
  const mostly = <T>(right: T, other: fc.Arbitrary<T>): fc.Arbitrary<T> =>
    fc.oneof({ weight: 9, arbitrary: fc.constant(right) }, { weight: 1, arbitrary: other });
  const anything = fc.record({
    host_path: mostly("/dev/x", text),
    container_path: mostly("/x", text),
    log_path: mostly("c/0.log", text),
    user: mostly("1000", text),
    group: mostly<string | null>(null, text),
    seccomp_profile_path: mostly("localhost//p.json", text),
    apparmor_profile: mostly("localhost/p", text),
    cgroup_parent: mostly("/kubepods", text),
    cpuset_cpus: mostly("0-1", text),
    memory_limit_in_bytes: mostly("1000", text),
    propagation: mostly(0, fc.integer({ min: -1, max: 4 })),
    relabel: fc.boolean(),
  });
  const imageUser = { uid: 1000, gid: 1000, supplementaryGroups: [], name: "app", home: "/" };
  let planned = 0;
  fc.assert(
    fc.property(anything, (one) => {
      try {
        const request = validateRequest("CreateContainer", {
          pod_sandbox_id: "id",
          config: containerConfig({
            log_path: one.log_path,
            mounts: [
              mount({
                host_path: one.host_path,
                container_path: one.container_path,
                propagation: one.propagation as never,
                selinux_relabel: one.relabel,
              }),
            ],
            devices: [device({ host_path: one.host_path })],
            linux: containerLinux({
              resources: resources({
                cpuset_cpus: one.cpuset_cpus,
                memory_limit_in_bytes: one.memory_limit_in_bytes,
              }),
              security_context: containerSecurity({
                run_as_user: { value: one.user },
                run_as_group: one.group === null ? null : { value: one.group },
                seccomp_profile_path: one.seccomp_profile_path,
                apparmor_profile: one.apparmor_profile,
              }),
            }),
          }),
          sandbox_config: podConfig({ linux: sandboxLinux({ cgroup_parent: one.cgroup_parent }), ...loose }),
        });
        const facts = nodeFacts({ security: { ...nodeFacts().security, selinux: one.relabel } });
        containerNeeds(request);
        planContainer(request, containerContext({ facts, inputs: { seccompProfile: "{}", imageUser } }));
        planned += 1;
      } catch (error) {
        assert.ok(error instanceof ShimError, String(error));
        assert.ok(
          ["invalid", "unsupported", "precondition"].includes(error.kind),
          `${error.kind} ${error.message}`,
        );
      }
    }),
    { numRuns: 500 },
  );
  assert.ok(planned > 50, "hardly any request got as far as its plan");
});
