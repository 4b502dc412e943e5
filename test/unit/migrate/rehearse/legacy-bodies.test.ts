/** The bodies of both programs, as they were recorded, from the requests that they were recorded for. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";
import { encodeCheckpoint } from "../../../../checkpoints/checkpoint.js";
import {
  legacyContainer,
  legacySandbox,
  type LegacyNode,
} from "../../../../src/migrate/rehearse/legacy-bodies.js";
import { vectors } from "../../checkpoints/golden.js";
import {
  containerConfig,
  containerLinux,
  containerSecurity,
  podConfig,
  sandboxId,
  sandboxLinux,
} from "../../plan/builders.js";
import { cgroupParent, recordedContainer, recordedLinux } from "../../plan/recorded-requests.js";

type Made = { readonly name: string; readonly body: object };

const golden = JSON.parse(
  readFileSync(new URL("../../../golden/create-bodies.json", import.meta.url), "utf8"),
) as Readonly<Record<LegacyNode["program"], Readonly<Record<string, Made>>>>;
const common: Omit<LegacyNode, "program"> = {
  ...{ cgroupDriver: "cgroupfs", networkMode: "default", pauseImage: "registry.example/pause:1" },
};

function fullPod(options: Parameters<typeof recordedLinux>[0] = {}) {
  return podConfig({
    hostname: "web",
    labels: { app: "web", "io.kubernetes.pod.name": "web" },
    annotations: { "a/b": "c" },
    port_mappings: [
      { protocol: 0, container_port: 80, host_port: 8080, host_ip: "" },
      { protocol: 1, container_port: 53, host_port: 53, host_ip: "127.0.0.1" },
      { protocol: 0, container_port: 80, host_port: 8081, host_ip: "" },
      { protocol: 0, container_port: 9, host_port: 0, host_ip: "" },
    ],
    linux: recordedLinux(options),
  });
}

const fullContainer = recordedContainer({ seccomp: { profile_type: 0, localhost_ref: "" } });

const podOfContainers = podConfig({
  log_directory: "/var/log/pods/web-0",
  linux: sandboxLinux({ cgroup_parent: cgroupParent }),
});

const container =
  (config: typeof fullContainer, sandboxConfig: typeof podOfContainers) => (node: LegacyNode) =>
    legacyContainer({ sandboxId, config, sandboxConfig }, node);
const plain = containerConfig({ metadata: { name: "c3", attempt: 0 }, image: null });

const cases: readonly (readonly [string, Partial<LegacyNode>, (node: LegacyNode) => Made])[] = [
  ["sandbox: full", {}, (node) => legacySandbox(fullPod(), node)],
  [
    "sandbox: without linux and dns",
    {},
    (node) =>
      legacySandbox(podConfig({ metadata: { name: "min", namespace: "ns", uid: "u", attempt: 0 } }), node),
  ],
  [
    "sandbox: full, cni, systemd",
    { networkMode: "none", cgroupDriver: "systemd" },
    (node) => legacySandbox(fullPod(), node),
  ],
  [
    "sandbox: host namespaces, cni, systemd",
    { networkMode: "none", cgroupDriver: "systemd" },
    (node) => {
      const metadata = { name: "web-1", namespace: "default", uid: "uid-1", attempt: 2 };
      return legacySandbox({ ...fullPod({ network: 2, pid: 2, ipc: 2 }), metadata }, node);
    },
  ],
  ["container: full", {}, container(fullContainer, podOfContainers)],
  [
    "container: linux empty",
    {},
    container(
      {
        ...containerConfig({ metadata: { name: "c2", attempt: 0 } }),
        linux: containerLinux({ security_context: containerSecurity() }),
      },
      podOfContainers,
    ),
  ],
  [
    "container: without linux",
    {},
    container(Object.assign(plain, { linux: null }), podConfig({}) as typeof podOfContainers),
  ],
];

describe("legacy bodies are the recorded ones", () => {
  for (const program of ["dockershim", "cri-dockerd"] as const) {
    for (const [name, changes, make] of cases)
      test(`${program}: ${name}`, () => {
        const made = make({ program, ...common, ...changes });
        const recorded = golden[program][name];
        assert.equal(made.name, recorded?.name);
        assert.deepEqual(meant(made.body), meant(recorded?.body));
      });
  }
});

test("the checkpoint has all mappings of the request, as the recorded file", () => {
  const vector = vectors.find(({ name }) => name === "one tcp mapping, host port 0 (container port only)");
  assert.ok(vector);
  const config = podConfig({
    metadata: { name: vector.podName, namespace: vector.namespace, uid: "u", attempt: 0 },
    port_mappings: [{ protocol: 0, container_port: 80, host_port: 0, host_ip: "" }],
  });
  const { checkpoint } = legacySandbox(config, { program: "dockershim", ...common });
  assert.equal(Buffer.from(encodeCheckpoint(checkpoint)).toString(), vector.dockershim.file);
});

/** Without what Docker takes for "not given". */
function meant(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(meant);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value)
    .map(([key, part]) => [key, meant(part)] as const)
    .filter(([key, part]) => {
      if (part === undefined || part === "" || part === 0 || part === false) return false;
      if (Array.isArray(part)) return part.length > 0;
      return (
        typeof part !== "object" || part === null || Object.keys(part).length > 0 || /^\d+\/\w+$/.test(key)
      );
    });
  return Object.fromEntries(entries);
}
