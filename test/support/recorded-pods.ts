/**
 * The pods of test/golden/create-bodies.json on this engine: as dockershim 1.20 and cri-dockerd 0.4.3 asked for
 * their containers, and the requests for which both did so.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { decodeCheckpoint, encodeCheckpoint } from "../../checkpoints/checkpoint.js";
import { type ContainerConfig, NamespaceMode, type PodSandboxConfig } from "../../src/domain/cri.js";
import { builtinPauseReference } from "../../src/shim/pause/pause-image.js";
import type { PodSandboxCheckpoint } from "../../src/shim/ports/checkpoint-store.js";
import { mount, namespaces, podConfig } from "../unit/plan/builders.js";
import { recordedContainer, recordedLinux } from "../unit/plan/recorded-requests.js";
import { createContainer, inspectContainer, startContainer } from "./docker.js";
import { runLabel, type TestBed } from "./test-bed.js";

export type LegacyProgram = "dockershim" | "cri-dockerd";

interface Body {
  readonly Labels: Readonly<Record<string, string>>;
  readonly HostConfig: Readonly<Record<string, unknown>>;
}
type Bodies = Readonly<Record<LegacyProgram, Readonly<Record<string, { readonly body: Body }>>>>;
export type LegacyAnswers = Readonly<Record<LegacyProgram, Readonly<Record<string, unknown>>>>;

function golden(name: string): unknown {
  return JSON.parse(readFileSync(new URL(`../golden/${name}`, import.meta.url), "utf8"));
}

const bodies = golden("create-bodies.json") as Bodies;
export const legacyAnswers = golden("legacy-answers.json") as LegacyAnswers;

/** What is different about each pod of a node. */
export interface RecordedPod {
  /** 0 has the name, and the host ports, that were recorded. */
  readonly number: number;
  /** With the network, PID and IPC namespaces of the host. */
  readonly isHost: boolean;
}

export interface MadePod extends RecordedPod {
  readonly id: string;
  readonly name: string;
  readonly uid: string;
  /** Ids. */
  readonly containers: readonly string[];
}

export interface PodPlace {
  readonly bed: TestBed;
  /** Of the sandbox, `none` or `default`. */
  readonly networkMode: string;
  /** Of its own flavour. */
  readonly checkpoints: string;
  readonly logs: string;
}

const attempt = 2;
const portStep = 100;

export function namesOf({ number }: RecordedPod): { readonly name: string; readonly uid: string } {
  return { name: `web-${number}`, uid: `uid-${number + 1}` };
}

/** The recorded checkpoint, with the name and host ports of the pod. */
export function checkpointOf(pod: RecordedPod, maker: LegacyProgram): PodSandboxCheckpoint {
  const recorded = legacyAnswers[maker]["checkpoint"] as string;
  const decoded = decodeCheckpoint(Buffer.from(recorded));
  assert.equal(decoded.kind, "checkpoint");
  const { checkpoint } = decoded;
  const flavour = flavourOf(maker);
  assert.equal(Buffer.from(encodeCheckpoint(checkpoint, flavour)).toString(), recorded);
  const portMappings = (checkpoint.data.portMappings ?? []).map((mapping) => ({
    ...mapping,
    hostPort: shifted(mapping.hostPort, pod),
  }));
  const data = { portMappings, ...(pod.isHost ? { hostNetwork: true as const } : {}) };
  return { ...checkpoint, name: namesOf(pod).name, data };
}

export function flavourOf(maker: LegacyProgram): "dockershim" | "criDockerd" {
  return maker === "dockershim" ? "dockershim" : "criDockerd";
}

/** 0 opens none. */
function shifted(hostPort: number, { number }: RecordedPod): number {
  return hostPort === 0 ? 0 : hostPort + portStep * number;
}

/** A running sandbox with a running container, a link to its log, and its checkpoint. */
export async function makeRecordedPod(
  maker: LegacyProgram,
  pod: RecordedPod,
  { bed, networkMode, checkpoints, logs }: PodPlace,
): Promise<MadePod> {
  const { name, uid } = namesOf(pod);
  const dockerName = (container: string, of: number): string =>
    ["k8s", container, name, "default", uid, of].join("_");
  const { body } = recorded(maker, pod.isHost ? "sandbox: host namespaces, cni, systemd" : "sandbox: full");
  const { Sysctls, PortBindings, ...host } = onThisHost(body.HostConfig);
  const id = await createContainer(dockerName("POD", attempt), {
    ...body,
    Image: builtinPauseReference,
    Labels: { ...body.Labels, [runLabel]: bed.run },
    HostConfig: {
      ...host,
      // The engine refuses settings of the host's network.
      ...(pod.isHost ? {} : { Sysctls, NetworkMode: networkMode }),
      PortBindings: shiftedBindings(PortBindings as Bindings, pod),
    },
  });
  const bytes = encodeCheckpoint(checkpointOf(pod, maker), flavourOf(maker));
  await writeFile(join(checkpoints, id), bytes, { mode: 0o600 });
  await startContainer(id);

  const inner = recorded(maker, "container: full").body;
  const log = join(logs, name, "c1", "0.log");
  const container = await createContainer(dockerName("c1", 1), {
    ...inner,
    ...{ Image: bed.image, Cmd: ["sleep 1000"] },
    Labels: {
      ...inner.Labels,
      [runLabel]: bed.run,
      "io.kubernetes.sandbox.id": id,
      "io.kubernetes.container.logpath": log,
    },
    HostConfig: {
      ...onThisHost(inner.HostConfig),
      ...{ NetworkMode: `container:${id}`, IpcMode: `container:${id}`, Binds: [`${logs}:/c:ro`] },
    },
  });
  await startContainer(container);
  await mkdir(dirname(log), { recursive: true });
  await symlink((await inspectContainer(container))?.LogPath ?? "", log);
  return { ...pod, id, name, uid, containers: [container] };
}

function recorded(maker: LegacyProgram, name: string): { readonly body: Body } {
  const found = bodies[maker][name];
  assert.ok(found, name);
  return found;
}

type Bindings = Readonly<Record<string, readonly { readonly HostIp?: string; readonly HostPort: string }[]>>;

function shiftedBindings(bindings: Bindings, pod: RecordedPod): Bindings {
  return Object.fromEntries(
    Object.entries(bindings).map(([port, all]) => [
      port,
      all.map(({ HostPort, ...rest }) => ({ ...rest, HostPort: String(shifted(Number(HostPort), pod)) })),
    ]),
  );
}

/** Without devices, cgroups and profiles of the recorded node, and without what needs CAP_SYS_RESOURCE. */
function onThisHost(config: Body["HostConfig"]): Body["HostConfig"] {
  const { CgroupParent: _parent, Devices: _devices, CpusetCpus: _cpus, CpusetMems: _nodes, ...rest } = config;
  const { OomScoreAdj, Privileged, SecurityOpt, ...own } = rest;
  const options = (SecurityOpt ?? []) as readonly string[];
  const mayLower = mayLowerOomScores();
  return {
    ...own,
    SecurityOpt: options.filter((option) => !/^(?:label|apparmor)=/.test(option)),
    ...(Number(OomScoreAdj) >= 0 || mayLower ? { OomScoreAdj } : {}),
    // runc raises limits of privileged containers.
    ...(mayLower ? { Privileged } : {}),
  };
}

/** CAP_SYS_RESOURCE */
function mayLowerOomScores(): boolean {
  const effective = /^CapEff:\s*([0-9a-f]+)$/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1] ?? "0";
  return (BigInt(`0x${effective}`) & (1n << 24n)) !== 0n;
}

/** The requests for which the bodies were recorded. */
export function requestsOf(
  pod: RecordedPod,
  { bed, logs }: Pick<PodPlace, "bed" | "logs">,
): { readonly sandbox: PodSandboxConfig; readonly container: ContainerConfig } {
  const labels = { [runLabel]: bed.run };
  const { name, uid } = namesOf(pod);
  const { NODE, CONTAINER } = NamespaceMode;
  const host = pod.isHost ? { network: NODE, pid: NODE, ipc: NODE } : {};
  const linux = recordedLinux(host);
  const { security_context: security } = linux;
  const ports = checkpointOf(pod, "dockershim").data.portMappings ?? [];
  const sandbox = podConfig({
    metadata: { name, uid, namespace: "default", attempt },
    hostname: "web",
    log_directory: join(logs, name),
    labels: { app: "web", "io.kubernetes.pod.name": "web", ...labels },
    annotations: { "a/b": "c" },
    port_mappings: ports.map(({ protocol, containerPort, hostPort, hostIp = "" }) => ({
      ...{ protocol: protocol === "tcp" ? 0 : 1, container_port: containerPort, host_port: hostPort },
      host_ip: hostIp,
    })),
    linux: {
      ...linux,
      cgroup_parent: "",
      sysctls: pod.isHost ? {} : linux.sysctls,
      security_context:
        security === null
          ? null
          : { ...security, selinux_options: null, privileged: security.privileged && mayLowerOomScores() },
    },
  });
  const full = recordedContainer({
    namespace_options: namespaces({ pid: CONTAINER, ...host }),
    selinux_options: null,
    apparmor_profile: "",
  });
  const container = {
    ...full,
    image: { ...full.image, image: bed.image },
    metadata: { name: "c1", attempt: 1 },
    args: ["sleep 1000"],
    mounts: [mount({ host_path: logs, container_path: "/c", readonly: true })],
    devices: [],
    labels: { ...full.labels, ...labels },
    linux: {
      ...full.linux,
      resources: full.linux?.resources ? { ...full.linux.resources, cpuset_cpus: "", cpuset_mems: "" } : null,
    },
  } as ContainerConfig;
  return { sandbox, container };
}
