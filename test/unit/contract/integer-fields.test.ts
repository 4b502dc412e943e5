/**
 * What becomes of every integer that a request can carry, at the edges of its type: it arrives exactly, is
 * cut, or is refused by the name of its field.
 */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { validateRequest } from "../../../src/shim/cri/rpcs.js";
import { containerName, sandboxName } from "../../../src/domain/names.js";
import type { ValidRequests } from "../../../src/domain/requests.js";
import { stopTimeoutSeconds } from "../../../src/domain/stop-signal.js";
import { ShimError } from "../../../src/lib/errors.js";
import { cgroupSettings } from "../../../src/shim/plan/cgroups.js";
import { createResources, podResources } from "../../../src/shim/plan/resources.js";
import { userFields } from "../../../src/shim/plan/users.js";
import { containerResources, createRequest } from "../../fakes/requests.js";
import { api } from "../grpc/test-server.js";
import { nodeFacts, podConfig } from "../plan/builders.js";
import { allRpcs, fieldsOf, requestBytes, type Version } from "./request-messages.js";

/** Beyond what a double has exactly. */
const odd = "9007199254740993";
const edges: Readonly<Record<string, readonly string[]>> = {
  TYPE_INT32: ["-2147483648", "-1", "0", "2147483647"],
  TYPE_UINT32: ["0", "4294967295"],
  TYPE_INT64: ["-9223372036854775808", "-1", "0", odd, "9223372036854775807"],
  TYPE_UINT64: ["0", odd, "18446744073709551615"],
};
const [least, , , , most] = edges["TYPE_INT64"] as [string, string, string, string, string];
/** The value as it was given. */
const exact = "exact";
/** The field is as if it was not there. */
const absent = undefined;

class Refused {
  constructor(
    readonly field: string,
    readonly kind: "invalid" | "unsupported" = "invalid",
  ) {}
}

type Arrived = string | number | bigint | undefined;

interface Row {
  readonly fields: readonly string[];
  readonly why: string;
  readonly rpc: keyof ValidRequests;
  readonly request: (value: string) => object;
  /** What of the validated request arrives where it is used. */
  readonly arrives: (request: never) => Arrived;
  /** By the value of the request; it holds for all edges that are not named with `others`. */
  readonly outcomes: Readonly<Record<string, unknown>>;
}

type Of<Name extends keyof ValidRequests> = ValidRequests[Name];

const run = (changes: object): object => ({ config: podConfig(changes), runtime_handler: "" });
const runLinux = (linux: object): object => run({ linux });
const create = (changes: object): object => createRequest("sandbox", changes);
const createSecurity = (changes: object): object => create({ linux: { security_context: changes } });
const resources = (changes: object): object => create({ linux: { resources: containerResources(changes) } });

const security = "config.linux.security_context";
const unused = (): Arrived => undefined;
const docker = ({ config }: Of<"CreateContainer">): ReturnType<typeof createResources> =>
  createResources(config.linux?.resources);
const imageUser = { uid: 7, gid: 7, supplementaryGroups: [], name: undefined, home: undefined };
const users = ({ config }: Of<"CreateContainer"> | Of<"RunPodSandbox">): ReturnType<typeof userFields> =>
  userFields(config.linux?.security_context, imageUser);

/** A row of one field; `Refused` in its outcomes stands for a refusal of `refused`. */
function rowOf<Rpc extends keyof ValidRequests>(
  rpc: Rpc,
  field: string,
  why: string,
  request: (value: string) => object,
  arrives: (request: Of<Rpc>) => Arrived,
  outcomes: Row["outcomes"],
  refused = "",
): Row {
  const named = Object.entries(outcomes).map(([value, one]) => [
    value,
    one === Refused ? new Refused(refused) : one,
  ]);
  return {
    fields: [field],
    why,
    rpc,
    request,
    arrives,
    outcomes: Object.fromEntries(named) as Row["outcomes"],
  };
}

function resourceRow(
  name: string,
  why: string,
  outcomes: Row["outcomes"],
  arrives: (request: Of<"CreateContainer">) => Arrived,
): Row {
  const field = `config.linux.resources.${name}`;
  const request = (value: string): object => resources({ [name]: value });
  return rowOf("CreateContainer", `LinuxContainerResources.${name}`, why, request, arrives, outcomes, field);
}

function userRows(rpc: "RunPodSandbox" | "CreateContainer"): readonly Row[] {
  const message = rpc === "RunPodSandbox" ? "LinuxSandboxSecurityContext" : "LinuxContainerSecurityContext";
  const request = (changes: object): object =>
    rpc === "RunPodSandbox" ? runLinux({ security_context: changes }) : createSecurity(changes);
  const why = "Docker takes user and group ids of 31 bits, and so does the API server";
  const row = (
    name: string,
    changes: (value: string) => object,
    arrives: (given: Of<typeof rpc>) => Arrived,
    at = name,
  ) =>
    rowOf(
      rpc,
      `${message}.${name}`,
      why,
      (value) => request(changes(value)),
      arrives,
      { "0": exact, others: Refused },
      `${security}.${at}`,
    );
  const run_as_user = { value: "7" };
  return [
    row(
      "run_as_user",
      (value) => ({ run_as_user: { value } }),
      (given) => users(given).User,
    ),
    row(
      "run_as_group",
      (value) => ({ run_as_user, run_as_group: { value } }),
      (given) => users(given).User?.slice(2),
    ),
    row(
      "supplemental_groups",
      (value) => ({ supplemental_groups: [value] }),
      (given) => users(given).GroupAdd?.[0],
      "supplemental_groups[0]",
    ),
  ];
}

const rows: readonly Row[] = [
  ...(["container_port", "host_port"] as const).map((name): Row => ({
    fields: [`PortMapping.${name}`],
    why: "ports have 16 bits",
    rpc: "RunPodSandbox",
    request: (value) => run({ port_mappings: [{ host_port: 1, container_port: 1, [name]: Number(value) }] }),
    arrives: ({ config }: Of<"RunPodSandbox">) => config.port_mappings[0]?.[name],
    outcomes: { "0": exact, others: new Refused(`config.port_mappings[0].${name}`) },
  })),
  ...userRows("RunPodSandbox"),
  ...userRows("CreateContainer"),
  rowOf(
    "RunPodSandbox",
    "PodSandboxMetadata.attempt",
    "part of the name",
    (value) => run({ metadata: { name: "a", namespace: "b", uid: "c", attempt: Number(value) } }),
    ({ config }) => sandboxName(config.metadata).split("_").at(-1),
    { others: exact },
  ),
  rowOf(
    "CreateContainer",
    "ContainerMetadata.attempt",
    "part of the name",
    (value) => create({ metadata: { name: "a", attempt: Number(value) } }),
    ({ config, sandbox_config }) => containerName(sandbox_config.metadata, config.metadata).split("_").at(-1),
    { others: exact },
  ),
  resourceRow(
    "cpu_period",
    "the kernel takes a second at most",
    { "0": absent, others: Refused },
    (request) => docker(request).CpuPeriod,
  ),
  resourceRow(
    "cpu_quota",
    "a negative quota is none; a number of JSON cannot carry the largest, and the kernel takes none of them",
    { "0": absent, [least]: "-1", "-1": exact, others: Refused },
    (request) => docker(request).CpuQuota,
  ),
  resourceRow(
    "cpu_shares",
    "the kernel cuts what is above its largest; older kubelets do not",
    { "0": absent, [odd]: "262144", [most]: "262144", others: Refused },
    (request) => docker(request).CpuShares,
  ),
  resourceRow(
    "memory_limit_in_bytes",
    "the API server takes every limit; the kernel counts pages; nothing has as much as 2^62 bytes",
    { "0": absent, "-1": absent, [odd]: "9007199254740992", [most]: String(2 ** 62), [least]: Refused },
    (request) => docker(request).Memory,
  ),
  {
    fields: ["LinuxContainerResources.memory_swap_limit_in_bytes"],
    why: "as the memory limit; -1 is unlimited",
    rpc: "CreateContainer",
    request: (value) => resources({ memory_limit_in_bytes: "8388608", memory_swap_limit_in_bytes: value }),
    arrives: (request: Of<"CreateContainer">) => docker(request).MemorySwap,
    outcomes: {
      "0": "8388608",
      "-1": exact,
      [odd]: "9007199254740992",
      [most]: String(2 ** 62),
      [least]: new Refused("config.linux.resources.memory_swap_limit_in_bytes"),
    },
  },
  resourceRow(
    "oom_score_adj",
    "the kernel takes -1000 to 1000",
    { "0": exact, "-1": exact, others: Refused },
    ({ config }) => config.linux?.resources?.oom_score_adj,
  ),
  {
    fields: ["HugepageLimit.limit"],
    why: "written into the cgroup as it is",
    rpc: "CreateContainer",
    request: (value) => resources({ hugepage_limits: [{ page_size: "2MB", limit: value }] }),
    arrives: ({ config }: Of<"CreateContainer">) =>
      cgroupSettings(config.linux?.resources, nodeFacts(), "config.linux.resources")?.hugepages[0]
        ?.limitBytes,
    outcomes: { others: exact },
  },
  ...["cpu_quota", "memory_limit_in_bytes"].map((name): Row => ({
    fields: [`LinuxContainerResources.${name}`],
    why: "those of the pod are kept as text and handed on; the kubelet sets the cgroup of the pod",
    rpc: "RunPodSandbox",
    request: (value) => runLinux({ resources: containerResources({ [name]: value }) }),
    arrives: ({ config: { linux } }: Of<"RunPodSandbox">) =>
      (podResources(linux ?? assert.fail(), "")?.resources as Record<string, string> | null)?.[name],
    outcomes: { others: exact },
  })),
  ...["host_id", "container_id", "length"].map((name): Row => ({
    fields: [`IDMapping.${name}`],
    why: "the users of the node have no mappings; those of a pod are compared in plan/user-namespaces.test.ts",
    rpc: "CreateContainer",
    request: (value) =>
      createSecurity({
        namespace_options: { userns_options: { mode: 2, uids: [{ [name]: Number(value) }] } },
      }),
    arrives: unused,
    outcomes: { others: new Refused(`${security}.namespace_options.userns_options`) },
  })),
  {
    fields: [
      ...["cpu_shares", "cpu_count", "cpu_maximum", "memory_limit_in_bytes", "rootfs_size_in_bytes"].map(
        (name) => `WindowsContainerResources.${name}`,
      ),
      "WindowsCpuGroupAffinity.cpu_mask",
      "WindowsCpuGroupAffinity.cpu_group",
    ],
    why: "`windows` is refused as a whole",
    rpc: "CreateContainer",
    request: (value) => create({ windows: { resources: { cpu_shares: value } } }),
    arrives: unused,
    outcomes: { others: new Refused("config.windows", "unsupported") },
  },
  rowOf(
    "StopContainer",
    "StopContainerRequest.timeout",
    "the API server takes every grace period; a year is as good as the largest",
    (value) => ({ container_id: "c", timeout: value }),
    ({ timeout }) => stopTimeoutSeconds(timeout),
    { [least]: "0", "-1": "0", "0": exact, others: "31536000" },
  ),
  rowOf(
    "ExecSync",
    "ExecSyncRequest.timeout",
    "0 and less are no limit, as with containerd; longer than a timer can be is none, too",
    (value) => ({ container_id: "c", cmd: ["x"], timeout: value }),
    ({ timeout }) => timeout,
    { others: exact },
  ),
  rowOf(
    "CheckpointContainer",
    "CheckpointContainerRequest.timeout",
    "the CRI has no meaning for a negative one; a long one is cut to the longest timer",
    (value) => ({ container_id: "c", location: "/c.tar", timeout: value }),
    ({ timeout }) => timeout,
    { [least]: Refused, "-1": Refused, others: exact },
    "timeout",
  ),
  rowOf(
    "PortForward",
    "PortForwardRequest.port",
    "ports have 16 bits, and nothing listens on 0",
    (value) => ({ pod_sandbox_id: "s", port: [Number(value)] }),
    ({ port }) => port[0],
    { others: Refused },
    "port[0]",
  ),
];

/** Integer fields of the requests by name, with their type; those of wrappers count as one of their message. */
function integerFields(version: Version): ReadonlyMap<string, string> {
  const requests = allRpcs(version).map(({ request }) => request);
  const fields = [...fieldsOf(requests, version)].flatMap(([field, type]): [string, string][] => {
    if (/^U?Int\d+Value\./.test(field)) return [];
    const wrapped = /^(U?Int\d+)Value$/.exec(type)?.[1];
    const integer = wrapped === undefined ? type : `TYPE_${wrapped.toUpperCase()}`;
    return integer in edges ? [[field, integer]] : [];
  });
  return new Map(fields);
}

describe("the integers of requests", () => {
  test("each has its row, and each row its field", () => {
    const has = new Set([...integerFields("v1").keys(), ...integerFields("v1alpha2").keys()]);
    assert.deepEqual([...new Set(rows.flatMap(({ fields }) => fields))].sort(), [...has].sort());
  });

  for (const version of ["v1", "v1alpha2"] as const) {
    const types = integerFields(version);
    for (const { fields, why, rpc, request, arrives, outcomes } of rows) {
      const type = types.get(fields[0] ?? "");
      const method = api.methods.find(
        ({ name, path }) => name === rpc && path.startsWith(`/runtime.${version}.`),
      );
      if (type === undefined || method === undefined) continue;
      for (const value of edges[type] ?? []) {
        const outcome = value in outcomes ? outcomes[value] : outcomes["others"];
        const text =
          outcome instanceof Refused ? "is refused" : outcome === exact ? "arrives" : `is ${String(outcome)}`;
        test(`${version} ${rpc}: ${fields[0] ?? ""} ${value} ${text}: ${why}`, () => {
          const bytes = requestBytes(version, rpc, request(value));
          assert.ok(bytes);
          const take = (): unknown => {
            const given = validateRequest(rpc, method.decodeRequest(bytes) as never);
            return arrives(given as never)?.toString();
          };
          if (outcome instanceof Refused) {
            assert.throws(take, (error) => {
              assert.ok(error instanceof ShimError, String(error));
              assert.deepEqual([error.kind, error.fields["field"]], [outcome.kind, outcome.field]);
              return true;
            });
          } else {
            assert.equal(take(), outcome === exact ? value : outcome);
          }
        });
      }
    }
  }
});
