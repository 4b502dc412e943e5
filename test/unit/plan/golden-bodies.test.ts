/**
 * The create and update bodies of dockershim and cri-dockerd for the same requests, but for the differences
 * of docs/understand/differences.md.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { ImageUserFiles } from "../../../src/domain/image-users.js";
import { planContainer } from "../../../src/shim/plan/container-plan.js";
import { planSandbox, type SandboxContext } from "../../../src/shim/plan/sandbox-plan.js";
import { planUpdate } from "../../../src/shim/plan/resources.js";
import { containerResources as resources } from "../../fakes/requests.js";
import { noResources } from "../../fakes/snapshots.js";
import {
  containerContext,
  containerLinux,
  containerSecurity,
  createRequest,
  nodeFacts,
  runRequest,
  sandboxContext,
  sandboxId,
  sandboxLinux,
} from "./builders.js";
import { cgroupParent, recordedContainer, recordedLinux } from "./recorded-requests.js";

type LegacyShim = "dockershim" | "cri-dockerd";
type Body = Readonly<Record<string, unknown>>;

interface Recorded {
  readonly name?: string;
  readonly body: Body;
}

const read = (path: string): string => readFileSync(new URL(`../../../${path}`, import.meta.url), "utf8");
const golden = JSON.parse(read("test/golden/create-bodies.json")) as Readonly<
  Record<LegacyShim, Readonly<Record<string, Recorded>>>
>;
const differencesDocument = read("docs/understand/differences.md");

/** A field that differs on purpose: `undefined` stands for "absent, null, zero or empty". */
interface Difference {
  /** Its key in docs/understand/differences.md. */
  readonly id: string;
  readonly field: string;
  readonly theirs: unknown;
  readonly ours: unknown;
  /** Both, unless given. */
  readonly only?: LegacyShim;
}

function differs(id: string, field: string, theirs: unknown, ours: unknown, only?: LegacyShim): Difference {
  return { id, field, theirs, ours, ...(only === undefined ? {} : { only }) };
}

const fullPod = {
  hostname: "web",
  labels: { app: "web", "io.kubernetes.pod.name": "web" },
  annotations: { "a/b": "c" },
  dns_config: { servers: ["10.0.0.10"], searches: ["svc.local"], options: ["ndots:5"] },
  port_mappings: [
    { protocol: 0, container_port: 80, host_port: 8080, host_ip: "" },
    { protocol: 1, container_port: 53, host_port: 53, host_ip: "127.0.0.1" },
    { protocol: 0, container_port: 80, host_port: 8081, host_ip: "" },
    { protocol: 0, container_port: 9, host_port: 0, host_ip: "" },
  ],
} as const;

const cniOnSystemd: Partial<SandboxContext> = {
  facts: nodeFacts({ cgroupDriver: "systemd" }),
  network: { name: "cni", dockerNetworkMode: "none", dockerPublishesPorts: false },
};

const noLogFile = differs("pause-log", "HostConfig.LogConfig", undefined, { Type: "none" });
const noHealthcheck = differs("pause-healthcheck", "Healthcheck", undefined, { Test: ["NONE"] });
const options = ["seccomp=unconfined"];
const newPrivileges = differs("new-privileges", "HostConfig.SecurityOpt", options, [
  "no-new-privileges=false",
  ...options,
]);
const privilegedSandbox = differs(
  "sandbox-privileged",
  "HostConfig.Privileged",
  undefined,
  true,
  "dockershim",
);
const cgroupNamespace = differs("cgroup-namespace", "HostConfig.CgroupnsMode", undefined, "host");
const ofSandboxes = [noLogFile, noHealthcheck, cgroupNamespace];
const publishedPorts = {
  "53/udp": [{ HostIp: "127.0.0.1", HostPort: "53" }],
  "80/tcp": [{ HostPort: "8080" }, { HostPort: "8081" }],
};
const unpublished = [
  differs("inert-ports", "HostConfig.PortBindings", publishedPorts, undefined),
  differs("inert-ports", "ExposedPorts", { "53/udp": {}, "80/tcp": {} }, undefined),
];
const joined = `container:${sandboxId}`;

const ofPod = { log_directory: "/var/log/pods/web-0", linux: sandboxLinux({ cgroup_parent: cgroupParent }) };

/** By name: what is planned, and how it differs from what was recorded. */
const cases: Readonly<
  Record<string, readonly [plan: () => { readonly name?: string; readonly body: object }, ...Difference[]]>
> = {
  "sandbox: full": [
    () => planSandbox(runRequest({ ...fullPod, linux: recordedLinux() }), sandboxContext()),
    ...[...ofSandboxes, privilegedSandbox],
  ],
  "sandbox: without linux and dns": [
    () => {
      const metadata = { name: "min", namespace: "ns", uid: "u", attempt: 0 };
      return planSandbox(runRequest({ metadata }), sandboxContext());
    },
    ...ofSandboxes,
    differs("sandbox-without-linux", "HostConfig.NetworkMode", undefined, "default"),
  ],
  "sandbox: full, cni, systemd": [
    () => planSandbox(runRequest({ ...fullPod, linux: recordedLinux() }), sandboxContext(cniOnSystemd)),
    ...[...ofSandboxes, privilegedSandbox, ...unpublished],
  ],
  "sandbox: host namespaces, cni, systemd": [
    () => {
      // The recorded request also had a net.* sysctl, which the plan refuses with the host's network (below).
      const { sysctls: _refused, ...linux } = recordedLinux({ network: 2, pid: 2, ipc: 2 });
      const metadata = { name: "web-1", namespace: "default", uid: "uid-1", attempt: 2 };
      const request = runRequest({ ...fullPod, metadata, linux: { ...linux, sysctls: {} } });
      return planSandbox(request, sandboxContext(cniOnSystemd));
    },
    ...[...ofSandboxes, privilegedSandbox, ...unpublished],
    differs("host-sysctls", "HostConfig.Sysctls", { "net.core.somaxconn": "1024" }, undefined),
  ],
  "container: full": [
    () => {
      const hostPaths = new Map(["/h", "/h2", "/h3"].map((path) => [path, "present"] as const));
      const imageUser = new ImageUserFiles("root:x:0:0::/root:/bin/sh", "").resolve("0");
      const context = containerContext({ inputs: { hostPaths, imageUser } });
      return planContainer(createRequest(recordedContainer(), ofPod), context);
    },
    cgroupNamespace,
    differs(
      "typed-mounts",
      "HostConfig.Binds",
      ["/h:/c", "/h2:/c2:ro,Z,rslave", "/h3:/c3:rshared"],
      undefined,
    ),
    differs("typed-mounts", "HostConfig.Mounts", undefined, [
      { Type: "bind", Source: "/h", Target: "/c" },
      { Type: "bind", Source: "/h2", Target: "/c2", ReadOnly: true, BindOptions: { Propagation: "rslave" } },
      { Type: "bind", Source: "/h3", Target: "/c3", BindOptions: { Propagation: "rshared" } },
    ]),
    differs("cpusets", "HostConfig.CpusetCpus", undefined, "0-1", "dockershim"),
    differs("cpusets", "HostConfig.CpusetMems", undefined, "0", "dockershim"),
  ],
  "container: linux empty": [
    () => {
      const linux = containerLinux({ security_context: containerSecurity() });
      const request = createRequest({ metadata: { name: "c2", attempt: 0 }, linux }, ofPod);
      return planContainer(request, containerContext());
    },
    ...[newPrivileges, cgroupNamespace],
    differs("no-log-path", "Labels.io.kubernetes.container.logpath", "/var/log/pods/web-0", undefined),
  ],
  "container: without linux": [
    () => planContainer(createRequest({ metadata: { name: "c3", attempt: 0 } }), containerContext()),
    ...[newPrivileges, cgroupNamespace],
    differs("container-without-linux", "HostConfig.NetworkMode", undefined, joined),
    differs("container-without-linux", "HostConfig.IpcMode", undefined, joined),
    differs("container-without-linux", "HostConfig.PidMode", undefined, joined),
    differs("image-required", "Image", undefined, "busybox"),
  ],
  update: [
    () => {
      const cpu = { cpu_period: "1", cpu_quota: "2", cpu_shares: "3", cpuset_cpus: "0", cpuset_mems: "0" };
      return planUpdate(resources({ ...cpu, memory_limit_in_bytes: "4" }), noResources, nodeFacts());
    },
    differs("memory-update", "MemorySwap", undefined, 4, "dockershim"),
  ],
};

describe("create and update bodies are those of dockershim and cri-dockerd", () => {
  for (const legacyShim of ["dockershim", "cri-dockerd"] as const) {
    for (const [name, [plan, ...differences]] of Object.entries(cases)) {
      test(`${legacyShim}: ${name}`, () => {
        const recorded = golden[legacyShim][name];
        assert.ok(recorded, "no such recorded case");
        const planned = plan();
        if (recorded.name !== undefined) assert.equal(planned.name, recorded.name);
        const expected = differences
          .filter(({ only }) => only === undefined || only === legacyShim)
          .map(({ field, theirs, ours }) => ({ field, theirs, ours }))
          .concat(labelKeys(planned.body), noInit(planned.body));
        assert.deepEqual(sorted(compare(recorded.body, planned.body)), sorted(expected));
      });
    }
  }
});

/** Every body has one more label, which lists the keys of all others. */
function labelKeys(body: { readonly Labels?: Readonly<Record<string, string>> }): readonly Found[] {
  const { "dockershim.label-keys": ours, ...others } = body.Labels ?? {};
  if (ours === undefined) return [];
  assert.deepEqual((JSON.parse(ours) as { readonly keys: unknown }).keys, Object.keys(others));
  return [{ field: "Labels.dockershim.label-keys", theirs: undefined, ours }];
}

/** Every body of a container says that it has no init of the engine. */
function noInit(body: object): readonly Found[] {
  return "HostConfig" in body ? [{ field: "HostConfig.Init", theirs: undefined, ours: false }] : [];
}

test("docs/understand/differences.md explains each difference in the bodies", () => {
  const ids = Object.values(cases).flatMap(([, ...differences]) => differences.map(({ id }) => id));
  for (const id of new Set(["label-keys", "no-init", ...ids]))
    assert.match(differencesDocument, new RegExp(`^\\| \`${id}\``, "m"));
});

interface Found {
  readonly field: string;
  readonly theirs: unknown;
  readonly ours: unknown;
}

/** Differences field by field, one level into HostConfig and Labels. */
function compare(theirs: object, ours: object): readonly Found[] {
  const left = flatten(normalize(theirs) as Body);
  const right = flatten(normalize(ours) as Body);
  return [...new Set([...left.keys(), ...right.keys()])]
    .map((field) => ({ field, theirs: left.get(field), ours: right.get(field) }))
    .filter((one) => !isDeepStrictEqual(one.theirs, one.ours));
}

function flatten(body: Body): Map<string, unknown> {
  const fields = new Map<string, unknown>();
  for (const [key, value] of Object.entries(body)) {
    if (key !== "HostConfig" && key !== "Labels") fields.set(key, value);
    else for (const [inner, part] of Object.entries(value as Body)) fields.set(`${key}.${inner}`, part);
  }
  return fields;
}

/** An empty list is not the same as no list in these. */
const significantWhenEmpty = ["Entrypoint", "Cmd", "MaskedPaths", "ReadonlyPaths"];

/**
 * Without what Docker takes for "not given": null, zero, false, empty; but for port keys, whose value is
 * always empty.
 */
function normalize(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(normalize);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value)
    .map(([key, part]) => [key, normalize(part)] as const)
    .filter(([key, part]) => {
      if (part === false) return key === "Init"; // Absent is what the engine's configuration says.
      if (part === null || part === undefined || part === 0 || part === "") return false;
      if (Array.isArray(part)) return part.length > 0 || significantWhenEmpty.includes(key);
      return typeof part !== "object" || Object.keys(part).length > 0 || /^\d+\/\w+$/.test(key);
    });
  return Object.fromEntries(entries);
}

function sorted(found: readonly Found[]): readonly Found[] {
  return [...found].sort((a, b) => a.field.localeCompare(b.field));
}
