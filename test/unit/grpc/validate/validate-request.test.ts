import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { ShimError, type ErrorKind } from "../../../../src/lib/errors.js";
import type { ValidCreateContainer } from "../../../../src/domain/requests.js";
import { containerNeeds, planContainer } from "../../../../src/shim/plan/container-plan.js";
import { validateRequest } from "../../../../src/shim/cri/rpcs.js";
import { containerResources } from "../../../fakes/requests.js";
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
import { refusal } from "../../../support/refusals.js";

/** A number that no version of the protocol knows, as the decoder hands it on. */
const unknown = 99;
const long = "x".repeat(128 * 1024);
/** The longest argument that the kernel takes. */
const longest = long.slice(1);
/** One byte more than the path of a program may have. */
const noProgram = `/${"é".repeat(2047)}x`;
const port = { protocol: 0, container_port: 80, host_port: 80, host_ip: "" };
const streams = { container_id: "c", tty: false, stdin: false, stdout: true, stderr: true };
const filter = { id: "", pod_sandbox_id: "", state: null, label_selector: {} };

function image(name: string) {
  return { image: name, annotations: {}, user_specified_image: "", runtime_handler: "", image_ref: "" };
}

function environment(key: string, value: string | Uint8Array) {
  return { key, value: Buffer.from(value) };
}

/** Its name has two bytes. */
const longestPlusOne = environment("é", longest.slice(2));
const securityParts = {
  namespace_options: namespaces(),
  apparmor: { profile_type: 0, localhost_ref: "" },
  selinux_options: { user: "", role: "", type: "", level: "" },
} as const;
const noCapabilities = { add_capabilities: [], drop_capabilities: [], add_ambient_capabilities: [] };

/** Requests that are in order. A row changes fields of one of them. */
const valid: Readonly<Record<string, object>> = {
  RunPodSandbox: {
    config: podConfig({
      dns_config: { servers: ["1.1.1.1"], searches: ["a"], options: ["ndots:5"] },
      port_mappings: [{ ...port }, { ...port }] as never,
      linux: sandboxLinux({ security_context: sandboxSecurity(securityParts) }),
    }),
    runtime_handler: "",
  },
  CreateContainer: {
    pod_sandbox_id: "id",
    config: containerConfig({
      mounts: [mount(), mount()],
      devices: [device()],
      envs: [environment("A", "b")],
      linux: containerLinux({
        resources: containerResources({ hugepage_limits: [{ page_size: "2MB", limit: "0" }] }),
        security_context: containerSecurity({ ...securityParts, capabilities: noCapabilities }),
      }),
    }),
    sandbox_config: podConfig({ log_directory: "/var/log/pods/p" }),
  },
  StopPodSandbox: { pod_sandbox_id: "s" },
  RemoveContainer: { container_id: "c" },
  StopContainer: { container_id: "c", timeout: "0" },
  ExecSync: { container_id: "c", cmd: ["x"], timeout: "0" },
  Exec: { cmd: ["x"], ...streams },
  Attach: streams,
  PortForward: { pod_sandbox_id: "s", port: [80, 81] },
  UpdateContainerResources: {
    ...{ container_id: "c", linux: containerResources({}), windows: null, annotations: {} },
  },
  ImageStatus: { image: image("a"), verbose: false },
  RemoveImage: { image: image("a") },
  PullImage: { image: image("a"), auth: null, sandbox_config: null },
  ListPodSandbox: { filter },
  ListContainers: { filter },
  UpdateRuntimeConfig: { runtime_config: { network_config: { pod_cidr: "" } } },
};

/** Values of several fields, by their paths. */
class Fields {
  constructor(readonly values: Readonly<Record<string, unknown>>) {}
}

const fields = (values: Fields["values"]): Fields => new Fields(values);

/** A valid request of the RPC, but for these fields. */
function requestWith(rpc: string, changes: Fields["values"]): object {
  const request = structuredClone(valid[rpc]) as Record<string, unknown>;
  for (const [path, value] of Object.entries(changes)) {
    const keys = [...path.matchAll(/\[([^\]]+)\]|[^.[]+/g)].map(([name, inner]) => inner ?? name);
    const last = keys.pop() ?? "";
    let at = request;
    for (const key of keys) at = at[key] as Record<string, unknown>;
    at[last] = value;
  }
  return request;
}

function validate(rpc: string, changes: Fields["values"]): object {
  return validateRequest(rpc as "CreateContainer", requestWith(rpc, changes) as never);
}

const withCredentials = [
  "u:secret@r.example/a",
  "secret@r.example/a",
  "https://u:sec/ret@r.example:5/a",
  "u:secret@r",
  `u:secret@r.example/a@sha256:${"ab".repeat(32)}`,
];
const imageMount = (changes: object): object =>
  mount({ host_path: "", image: image("a"), readonly: true, ...changes });
const withMount = (value: object): Fields => fields({ "config.mounts[1]": value });
const recursive = { recursive_read_only: true, readonly: true };
const badSubPaths = ["/etc", "..", "a/../../b", "a\0", "x".repeat(4097)];
const security = "config.linux.security_context";
const resources = "config.linux.resources";
const users = { mode: 0, uids: [], gids: [] };
const oneId = { host_id: 1, container_id: 0, length: 1 };

/** The field that is named in the error, and values of it that are refused. */
type Row = readonly [field: string, values: readonly unknown[], kind?: ErrorKind];

const refused: Readonly<Record<string, readonly Row[]>> = {
  RunPodSandbox: [
    ["config", [null]],
    ["config.metadata", [null]],
    ["config.metadata.name", ["", "a/b", "x".repeat(254)]],
    ["config.metadata.namespace", ["a\0b"]],
    ["config.metadata.uid", ["a b"]],
    ["config.hostname", ["h".repeat(65), "a\nb"]],
    ["config.log_directory", ["logs", "/var/log/../../etc"]],
    ["config.dns_config.servers[0]", ["1.1.1.1\nx"]],
    ["config.dns_config.searches[0]", [""]],
    ["config.dns_config.options[0]", ["a b"]],
    ["config.port_mappings[1].host_port", [65536]],
    ["config.port_mappings[0].container_port", [-1]],
    ["config.port_mappings[0].protocol", [unknown]],
    ["config.port_mappings[0].host_ip", ["localhost", "fe80::1%eth0"]],
    ["config.labels", [{ "dockershim.prefixed-labels": "[]" }, { "io.kubernetes.docker.type": "container" }]],
    ["config.linux.cgroup_parent", ["/a\0"]],
    ["config.linux.sysctls", [{ "net/../x": "1" }]],
    ["config.linux.sysctls[net.a]", ["\0"]],
    [`${security}.run_as_group`, [{ value: "1" }]],
    [`${security}.run_as_user`, [{ value: "2147483648" }]],
    [`${security}.supplemental_groups[0]`, ["-1"]],
    [`${security}.namespace_options.network`, [unknown]],
    [`${security}.namespace_options.pid`, [3]],
    [
      `${security}.namespace_options.userns_options.mode`,
      [fields({ [`${security}.namespace_options.userns_options`]: { ...users, mode: 1 } })],
      "unsupported",
    ],
    [
      `${security}.namespace_options.userns_options.uids`,
      [fields({ [`${security}.namespace_options.userns_options`]: users })],
    ],
    [`${security}.seccomp.profile_type`, [seccomp(unknown, "")]],
    [`${security}.seccomp.localhost_ref`, [seccomp(2, "p"), seccomp(2, "/var/lib/kubelet/seccomp/../x")]],
    [`${security}.seccomp_profile_path`, ["whatever", "localhost//var/lib/kubelet/seccomp/../../x.json"]],
    [`${security}.apparmor.localhost_ref`, [fields({ [`${security}.apparmor.profile_type`]: 2 })]],
    [`${security}.selinux_options.level`, ["a b"]],
  ],
  CreateContainer: [
    ["pod_sandbox_id", [""]],
    ["config", [null]],
    ["sandbox_config", [null]],
    ["sandbox_config.metadata", [null]],
    ["config.metadata", [null]],
    ["config.metadata.name", [""]],
    ["config.image", [null]],
    ["config.image.image", ["", "a b", ...withCredentials]],
    ["config.image.user_specified_image", withCredentials],
    ["config.command[0]", [fields({ "config.command": [noProgram, "a"] })]],
    ["config.command[1]", [fields({ "config.command": ["a", long] })]],
    ["config.args[0]", ["a\0"]],
    ["config.args", [Array<string>(17).fill(longest)]],
    [
      "config.envs",
      [
        fields({
          "config.args": Array<string>(8).fill(longest),
          "config.envs": Array<object>(9).fill(environment("A", longest.slice(2))),
        }),
      ],
    ],
    ["config.working_dir", ["w"]],
    ["config.envs[0].key", ["", "A=B"]],
    ["config.envs[0]", [environment("A", "a\0b"), environment("A", long), longestPlusOne]],
    ["config.envs[0].value", [Buffer.from([0xc3])], "unsupported"],
    ["config.log_path", ["../x", "a/../../x", ".", "/", "a\0"]],
    ["config.labels", [{ "io.kubernetes.sandbox.id": "x" }]],
    ["config.stop_signal", [unknown]],
    ["config.CDI_devices[0].name", [fields({ "config.CDI_devices": [{ name: "gpu" }] })]],
    ["config.devices[0].host_path", ["dev/x"]],
    ["config.devices[0].permissions", ["rwx"]],
    ["config.mounts[1].host_path", ["", "relative", withMount(imageMount({ host_path: "/srv" }))]],
    ["config.mounts[1].container_path", ["relative", "/a\0"]],
    ["config.mounts[1].propagation", [unknown, withMount(imageMount({ propagation: 2 }))]],
    ["config.mounts[1].uidMappings", [[oneId, oneId]]],
    ["config.mounts[1].gidMappings", [withMount(mount({ uidMappings: [oneId] }))]],
    ["config.mounts[1].readonly", [withMount(imageMount({ readonly: false }))]],
    ["config.mounts[1].image.image", [withMount(imageMount({ image: image("a b") }))]],
    [
      "config.mounts[1].image_sub_path",
      badSubPaths.map((image_sub_path) => withMount(imageMount({ image_sub_path }))),
    ],
    ["config.mounts[1].recursive_read_only", [true, withMount(mount({ ...recursive, propagation: 1 }))]],
    [
      `${security}.run_as_username`,
      ["a:b", fields({ [`${security}.run_as_username`]: "a", [`${security}.run_as_user`]: { value: "1" } })],
    ],
    [`${security}.run_as_group`, [{ value: "1" }]],
    [`${security}.supplemental_groups_policy`, [unknown]],
    [`${security}.namespace_options.target_id`, [fields({ [`${security}.namespace_options.pid`]: 3 })]],
    [
      `${security}.namespace_options.ipc`,
      [fields({ [`${security}.namespace_options`]: namespaces({ ipc: 3, target_id: "x" }) })],
    ],
    [`${security}.masked_paths[0]`, ["proc"]],
    [`${security}.capabilities.add_capabilities[0]`, ["SYS ADMIN"]],
    [`${security}.capabilities.add_ambient_capabilities[0]`, ["SYS ADMIN", "ALL", "all"]],
    [`${resources}.memory_limit_in_bytes`, ["-2"]],
    [`${resources}.cpu_shares`, ["-1"]],
    [`${resources}.cpu_period`, ["1000001"]],
    [`${resources}.oom_score_adj`, ["1001"]],
    [`${resources}.cpuset_cpus`, ["0-"]],
    [
      `${resources}.memory_swap_limit_in_bytes`,
      [
        fields({
          [`${resources}.memory_limit_in_bytes`]: "5",
          [`${resources}.memory_swap_limit_in_bytes`]: "4",
        }),
      ],
    ],
    [`${resources}.hugepage_limits[0].page_size`, ["2Mi", "../2MB"]],
    [`${resources}.hugepage_limits[0].limit`, ["18446744073709551616"]],
    [`${resources}.unified`, [{ "../memory.high": "1" }, { "cgroup.procs": "1" }]],
  ],
  StopPodSandbox: [["pod_sandbox_id", [""]]],
  RemoveContainer: [["container_id", [""]]],
  StopContainer: [["timeout", ["x"]]],
  ExecSync: [
    ["cmd", [[], Array<string>(17).fill(longest)]],
    ["cmd[0]", ["", noProgram]],
    ["cmd[1]", [long]],
  ],
  Exec: [
    ["container_id", [""]],
    ["stderr", [fields({ tty: true })]],
    ["stdin", [fields({ stdout: false, stderr: false })]],
    ["cmd", [[]]],
    ["cmd[0]", ["", noProgram]],
    ["cmd[1]", [long]],
  ],
  Attach: [
    ["container_id", [""]],
    ["stderr", [fields({ tty: true })]],
    ["stdin", [fields({ stdout: false, stderr: false })]],
  ],
  PortForward: [
    ["pod_sandbox_id", [""]],
    ["port[1]", [0, -1, 65_536]],
  ],
  UpdateContainerResources: [["linux.memory_limit_in_bytes", ["-2"]]],
  ImageStatus: [
    ["image", [null]],
    ["image.image", withCredentials],
  ],
  RemoveImage: [["image.image", ["", ...withCredentials]]],
  PullImage: [
    [
      "image.image",
      [...withCredentials, "", "UPPER", "a:b:c", "ab".repeat(32), `sha256:${"ab".repeat(32)}`, "-a"],
    ],
  ],
  ListPodSandbox: [["filter.state.state", [fields({ "filter.state": { state: unknown } })]]],
  ListContainers: [["filter.state.state", [fields({ "filter.state": { state: unknown } })]]],
  UpdateRuntimeConfig: [
    ["runtime_config.network_config.pod_cidr", ["10.0.0.0", "10.0.0.0/33", "10.0.0.0/24,x", "fd00::/129"]],
  ],
};

function seccomp(type: number, localhost: string): Fields {
  return fields({ [`${security}.seccomp`]: { profile_type: type, localhost_ref: localhost } });
}

describe("validateRequest() refuses, naming the field", () => {
  for (const [rpc, rows] of Object.entries(refused)) {
    for (const [field, values, kind = "invalid"] of rows) {
      test(`${field} of ${rpc}`, () => {
        const literal = field.replace(/[.[\]]/g, "\\$&");
        for (const value of values) {
          const changes = value instanceof Fields ? value.values : { [field]: value };
          assert.throws(() => validate(rpc, changes), refusal(kind, new RegExp(`^${literal}(:| ")`)));
        }
      });
    }
  }

  test("without showing environment values, arguments, credentials, or more than the beginning of a name", () => {
    for (const changes of [
      { "config.envs[0]": environment("A", `secret\0${long}`) },
      { "config.args": [`secret${long}`] },
      ...withCredentials.map((image) => ({ "config.image.image": image })),
    ]) {
      assert.throws(
        () => validate("CreateContainer", changes),
        (error) => error instanceof ShimError && !error.message.includes("secret"),
      );
    }
    assert.throws(
      () => validate("RunPodSandbox", { "config.metadata.name": "n".repeat(1_000_000) }),
      (error) => error instanceof ShimError && error.message.length < 300,
    );
  });
});

describe("validateRequest() lets pass", () => {
  const passing: Readonly<Record<string, Readonly<Record<string, Fields["values"]>>>> = {
    RunPodSandbox: {
      "a sandbox without linux": { "config.linux": null },
      "dots in names": { "config.metadata.name": "a-b.c", "config.metadata.uid": "" },
      "underscores in names, which crictl's users write": {
        "config.metadata": { name: "a_b", namespace: "c_", uid: "_d", attempt: 0 },
      },
      "a name of 253 characters": { "config.metadata.name": "x".repeat(253) },
      "a host name of the kernel's longest": { "config.hostname": "h".repeat(64) },
      "an IPv6 host address": { "config.port_mappings[0].host_ip": "fd00::1" },
      "the kubelet's labels": {
        "config.labels": { "io.kubernetes.container.name": "x", "io.kubernetes.pod.uid": "u" },
      },
      "a label that begins as annotations do": { "config.labels": { "annotation.x": "y" } },
      "annotations of any name": {
        "config.annotations": { "io.kubernetes.docker.type": "x", "annotation.a": "" },
      },
      "the node's user namespace": {
        [`${security}.namespace_options.userns_options`]: { ...users, mode: 2 },
      },
      "a pod with an empty message for Windows": { "config.windows": { security_context: null } },
    },
    CreateContainer: {
      "an underscore in a container's name": { "config.metadata.name": "a_b" },
      "a program of the kernel's longest path": { "config.command": [noProgram.slice(0, -1), long.slice(1)] },
      "an argument that is longer than a path": { "config.args": [noProgram] },
      "an argument of the kernel's longest": { "config.args": [longest] },
      "an environment entry of the kernel's longest, whose letters have two bytes": {
        "config.envs": [environment("é", "é".repeat(longest.length / 2 - 1))],
      },
      "no log directory": { "config.log_path": "x", "sandbox_config.log_directory": "" },
      "an image by digest": { "config.image": image(`r.example:5/a:1@sha256:${"ab".repeat(32)}`) },
      "an image by id": { "config.image": image(`sha256:${"ab".repeat(32)}`) },
      "capabilities with and without prefix": {
        [`${security}.capabilities`]: {
          ...noCapabilities,
          add_capabilities: ["CAP_CHOWN"],
          drop_capabilities: ["ALL"],
        },
      },
      "what kubelets send about hugepages": { [`${resources}.hugepage_limits[0].page_size`]: "1GB" },
      "a directory of an image as a volume": {
        "config.mounts[1]": imageMount({ image_sub_path: "a/..b/./c" }),
      },
      "an empty image of a mount of the node": { "config.mounts[1].image": image("") },
      "the subPath of a mount of the node, which kubelets name here, too": {
        "config.mounts[1].host_path": "/srv/data/a",
        "config.mounts[1].image_sub_path": "a",
      },
      "a container with an empty message for Windows": {
        "config.windows": { resources: null, security_context: null },
      },
    },
    ImageStatus: { "the status of an unknown image": { image: image("No/Such:IMAGE") } },
    UpdateRuntimeConfig: {
      "both families of pod CIDRs": { "runtime_config.network_config.pod_cidr": "10.1.0.0/16,fd00::/64" },
      "an update without runtime configuration": { runtime_config: null },
    },
    StopContainer: { "a negative timeout of a stop": { timeout: "-1" } },
    ListContainers: { "a list without filter": { filter: null } },
    UpdateContainerResources: { "an update without resources": { linux: null } },
  };
  for (const [rpc, rows] of Object.entries(passing)) {
    for (const [what, changes] of Object.entries(rows)) {
      test(`${what}: ${rpc}`, () => {
        assert.ok(validate(rpc, changes));
      });
    }
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
    const filterOf = (given: unknown): unknown => validateRequest(name, { filter: given } as never);
    assert.deepEqual(filterOf(null), { filter: null }, name);
    assert.deepEqual(filterOf(empty), { filter: null }, name);
    assert.deepEqual(filterOf({ ...empty, ...member }), { filter: { ...empty, ...member } }, name);
  }
});

test("a request with any strings is planned or refused by a ShimError", () => {
  const text = fc.oneof(
    fc.string(),
    fc.constantFrom("", "/", "..", "/dev/../x", "localhost/", "localhost//x", "0", "-1", "a:b"),
  );
  // Mostly what is right, so that a wrong value is met at every check, also the late ones.
  const mostly = <T>(right: T, other: fc.Arbitrary<T>): fc.Arbitrary<T> =>
    fc.oneof({ weight: 9, arbitrary: fc.constant(right) }, { weight: 1, arbitrary: other });
  const anything = fc.record({
    "config.mounts[1].host_path": mostly("/dev/x", text),
    "config.mounts[1].container_path": mostly("/x", text),
    "config.mounts[1].propagation": mostly(0, fc.integer({ min: -1, max: 4 })),
    "config.mounts[1].selinux_relabel": fc.boolean(),
    "config.devices[0].host_path": mostly("/dev/x", text),
    "config.log_path": mostly("c/0.log", text),
    [`${security}.run_as_user`]: mostly("1000", text).map((value) => ({ value })),
    [`${security}.run_as_group`]: fc.option(mostly("1000", text).map((value) => ({ value }))),
    [`${security}.seccomp_profile_path`]: mostly("localhost//p.json", text),
    [`${security}.apparmor_profile`]: mostly("localhost/p", text),
    [`${resources}.cpuset_cpus`]: mostly("0-1", text),
    [`${resources}.memory_limit_in_bytes`]: mostly("1000", text),
    "sandbox_config.linux": mostly("/kubepods", text).map((cgroup_parent) => sandboxLinux({ cgroup_parent })),
  });
  const imageUser = { uid: 1000, gid: 1000, supplementaryGroups: [], name: "app", home: "/" };
  let planned = 0;
  fc.assert(
    fc.property(anything, fc.boolean(), (changes, selinux) => {
      try {
        const request = validate("CreateContainer", changes) as ValidCreateContainer;
        const facts = nodeFacts({ security: { ...nodeFacts().security, selinux } });
        containerNeeds(request);
        planContainer(request, containerContext({ facts, inputs: { seccompProfile: "{}", imageUser } }));
        planned += 1;
      } catch (error) {
        assert.ok(error instanceof ShimError, String(error));
        const kinds: readonly ErrorKind[] = ["invalid", "unsupported", "precondition"];
        assert.ok(kinds.includes(error.kind), `${error.kind} ${error.message}`);
      }
    }),
    { numRuns: 500 },
  );
  assert.ok(planned > 50, "hardly any request got as far as its plan");
});
