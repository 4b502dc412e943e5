/** A manifest → the configurations that the kubelet would send over the CRI. Pure. */
import { posix } from "node:path";
import type {
  Answer,
  ContainerConfig,
  Image,
  Mount,
  PodSandboxConfig,
  PortMapping,
} from "../../domain/cri.js";
import { Protocol } from "../../domain/cri.js";
import { ShimError } from "../../lib/errors.js";
import {
  containerNameLabel,
  gracePeriodAnnotation,
  podNameLabel,
  podNamespaceLabel,
  podUidLabel,
} from "../../domain/labels.js";
import { stopSignalNumber } from "../../domain/stop-signal.js";
import type { DnsConfig } from "./dns.js";
import { podDns } from "./dns.js";
import { expandVariables } from "./expand-variables.js";
import { containerHash, podHash } from "./hashes.js";
import type { PodSpec } from "../manifests/pod-schema.js";
import type { Manifest, PodKey } from "../manifests/read-manifests.js";
import { type PodCgroups, podCgroupPath } from "./pod-cgroup.js";
import type { Directories } from "./pod-paths.js";
import { logDirectory, logPath, directoriesOfPod, podId } from "./pod-paths.js";
import {
  type Amounts,
  type NodeResources,
  type PodContainer,
  linuxResources,
  sandboxResources,
} from "./resources.js";
import { containerSecurityContext, sandboxSecurityContext } from "./security-context.js";

/** Facts about the node for the configuration of a pod. */
export interface NodeFacts extends NodeResources {
  /** As a Kubernetes node: lower case. */
  readonly name: string;
  /** At most one of each family. */
  readonly addresses: readonly string[];
  /** What pods can have of cpu, memory and ephemeral-storage. */
  readonly allocatable: Amounts;
  /** Undefined when it is not known. */
  readonly dns: DnsConfig | undefined;
  readonly hostsFile: string;
  readonly seLinux: boolean;
  readonly podCgroups: PodCgroups;
}

/** Other annotations that the kubelet puts on containers. */
const containerHashAnnotation = "io.kubernetes.container.hash";
const restartCountAnnotation = "io.kubernetes.container.restartCount";
const messagePathAnnotation = "io.kubernetes.container.terminationMessagePath";
const messagePolicyAnnotation = "io.kubernetes.container.terminationMessagePolicy";
const preStopAnnotation = "io.kubernetes.container.preStopHandler";
const portsAnnotation = "io.kubernetes.container.ports";

/** Marks a sandbox as made by `play`; its value is the `podHash` of the manifest. */
export const playHashAnnotation = "dockershim.local/play-hash";

/** `Deployment/web`: the workload that a pod was made for. */
export const playOwnerAnnotation = "dockershim.local/play-owner";

export const jobNameLabel = "batch.kubernetes.io/job-name";

/** What the Job was that has made the pod: see manifests/job-mark.ts. */
export const playJobAnnotation = "dockershim.local/play-job";

/** Where the pod's files are: see servers-of-pods.ts. */
export const playServerAnnotation = "dockershim.local/play-server";

export const defaultGraceSeconds = 30;
const defaultMessagePath = "/dev/termination-log";

export function podLabels({ name, namespace, uid }: PodKey): Readonly<Record<string, string>> {
  return { [podNameLabel]: name, [podNamespaceLabel]: namespace, [podUidLabel]: uid };
}

/** The name of the pod in its /etc/hosts, without its domain. */
export function podHostname({ pod, key }: Manifest): string {
  return (pod.spec.hostname ?? key.name).slice(0, 63).replace(/[-.]+$/, "");
}

/** The end of all names of Services, as in most clusters. */
const clusterDomain = "cluster.local";

/** The domain of a pod with a subdomain, else empty. */
export function podDomain({ pod, key }: Manifest): string {
  const { subdomain = "" } = pod.spec;
  return subdomain === "" ? "" : `${subdomain}.${key.namespace}.svc.${clusterDomain}`;
}

/** Linux takes no longer host name. */
const hostnameLimit = 64;

/** The host name that the pod's containers see; empty on the host network, where it is the node's. */
function sandboxHostname(manifest: Manifest): string {
  const { spec } = manifest.pod;
  if (spec.hostNetwork === true) return "";
  const domain = podDomain(manifest);
  if (spec.setHostnameAsFQDN !== true || domain === "") return podHostname(manifest);
  const name = `${podHostname(manifest)}.${domain}`;
  if (name.length <= hostnameLimit) return name;
  const reason = `it has more than ${hostnameLimit} characters`;
  throw new ShimError("invalid", `set the host name "${name}" (setHostnameAsFQDN): ${reason}`);
}

export function sandboxConfig(
  manifest: Manifest,
  attempt: number,
  node: NodeFacts,
  directories: Directories,
): Answer<PodSandboxConfig> {
  const { key, pod, owner } = manifest;
  const { spec, metadata } = pod;
  const { driver } = node.podCgroups;
  const { server } = directoriesOfPod(directories, key);
  const sysctls = (spec.securityContext?.sysctls ?? []).map(
    ({ name, value }) => [sysctlName(name), value] as const,
  );
  return {
    metadata: { ...key, attempt },
    hostname: sandboxHostname(manifest),
    log_directory: logDirectory(directories, key),
    dns_config: podDns(spec, node.dns),
    port_mappings: portMappings(spec),
    labels: { ...metadata.labels, ...podLabels(key) },
    annotations: {
      ...metadata.annotations,
      [playHashAnnotation]: podHash(manifest),
      ...(owner === undefined ? {} : { [playOwnerAnnotation]: `${owner.kind}/${owner.name}` }),
      ...(manifest.jobMark === undefined ? {} : { [playJobAnnotation]: manifest.jobMark }),
      ...(server === undefined ? {} : { [playServerAnnotation]: server }),
    },
    linux: {
      cgroup_parent: driver === undefined ? "" : podCgroupPath(podId(directories, key), driver),
      security_context: sandboxSecurityContext(spec),
      sysctls: Object.fromEntries(sysctls),
      resources: sandboxResources(spec),
      overhead: {},
    },
  };
}

/** Kubernetes takes `kernel/shm_rmid_forced` as well. */
function sysctlName(name: string): string {
  const slash = name.indexOf("/");
  const dot = name.indexOf(".");
  if (slash === -1 || (dot !== -1 && dot < slash)) return name;
  return name.replace(/[./]/g, (character) => (character === "/" ? "." : "/"));
}

/** All ports of the containers. On the host network nothing is mapped: the ports are the node's own. */
function portMappings(spec: PodSpec): readonly Answer<PortMapping>[] {
  if (spec.hostNetwork === true) return [];
  return spec.containers.flatMap(({ ports = [] }) =>
    ports.map(({ containerPort, hostPort = 0, hostIP = "", protocol = "TCP" }) => ({
      protocol: Protocol[protocol],
      container_port: containerPort,
      host_port: hostPort,
      host_ip: hostIP,
    })),
  );
}

export interface ContainerConfigInput {
  readonly manifest: Manifest;
  readonly container: PodContainer;
  readonly attempt: number;
  readonly image: Pick<Image, "id" | "uid" | "username">;
  /** All mounts, with resolved sub paths. */
  readonly mounts: readonly Answer<Mount>[];
  /** The result of `containerEnvironment`. */
  readonly environment: ReadonlyMap<string, string>;
  /** See `CreateContainerInput`. */
  readonly targetId?: string;
  readonly node: NodeFacts;
  readonly directories: Directories;
}

/** Throws an `invalid` ShimError when the container must not run (runAsNonRoot). */
export function containerConfig(input: ContainerConfigInput): Answer<ContainerConfig> {
  const { manifest, container, attempt, image, mounts, environment, node, directories } = input;
  const { spec } = manifest.pod;
  const expand = (text: string): string => expandVariables(text, environment);
  return {
    metadata: { name: container.name, attempt },
    image: { image: image.id, user_specified_image: container.image },
    command: (container.command ?? []).map(expand),
    args: (container.args ?? []).map(expand),
    working_dir: container.workingDir ?? "",
    envs: [...environment].map(([key, value]) => ({ key, value: Buffer.from(value) })),
    mounts,
    labels: { ...podLabels(manifest.key), [containerNameLabel]: container.name },
    annotations: {
      [containerHashAnnotation]: containerHash(container),
      [restartCountAnnotation]: String(attempt),
      [messagePathAnnotation]: messagePath(container),
      [messagePolicyAnnotation]: container.terminationMessagePolicy ?? "File",
      [gracePeriodAnnotation]: String(spec.terminationGracePeriodSeconds ?? defaultGraceSeconds),
      ...handlerAnnotations(container),
    },
    log_path: logPath(container.name, attempt),
    stdin: container.stdin ?? false,
    stdin_once: container.stdinOnce ?? false,
    tty: container.tty ?? false,
    ...stopSignal(container),
    linux: {
      resources: linuxResources(container, spec, node),
      security_context: containerSecurityContext({
        container,
        spec,
        image,
        seccompDirectory: directories.seccomp,
        ...(input.targetId === undefined ? {} : { targetId: input.targetId }),
      }),
    },
  };
}

function stopSignal({ name, lifecycle }: PodContainer): Pick<Answer<ContainerConfig>, "stop_signal"> {
  const text = lifecycle?.stopSignal;
  if (text === undefined) return {};
  const stop_signal = stopSignalNumber(text);
  if (stop_signal === 0)
    throw new ShimError("invalid", `stop container "${name}" by "${text}": there is no such signal`);
  return { stop_signal };
}

/** As JSON, by which a kubelet that no longer has the manifest ends the container properly. */
function handlerAnnotations({ lifecycle, ports = [] }: PodContainer): Readonly<Record<string, string>> {
  const shown = ports.map((port) => ({ ...port, protocol: port.protocol ?? "TCP" }));
  return {
    ...(lifecycle?.preStop === undefined ? {} : { [preStopAnnotation]: JSON.stringify(lifecycle.preStop) }),
    ...(ports.length === 0 ? {} : { [portsAnnotation]: JSON.stringify(shown) }),
  };
}

/** Where the container finds its termination message file. */
export function messagePath(container: PodContainer): string {
  return posix.resolve("/", container.terminationMessagePath ?? defaultMessagePath);
}
