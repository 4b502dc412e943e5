/** A manifest → the configurations that the kubelet would send over the CRI. Pure. */
import { posix } from "node:path";
import type {
  Answer,
  ContainerConfig,
  Image,
  Mount,
  PodSandboxConfig,
  PortMapping,
} from "../../shim/domain/cri.js";
import { Protocol, Signal } from "../../shim/domain/cri.js";
import { ShimError } from "../../shim/lib/errors.js";
import {
  containerNameLabel,
  gracePeriodAnnotation,
  podNameLabel,
  podNamespaceLabel,
  podUidLabel,
} from "../../shim/domain/labels.js";
import type { DnsConfig } from "./dns.js";
import { podDns } from "./dns.js";
import { expandEnvironment, expandVariables } from "./expand-variables.js";
import { containerHash, podHash } from "../kubelet/hashes.js";
import type { Container, EphemeralContainer, PodSpec } from "../manifests/pod-schema.js";
import type { Manifest, PodKey } from "../manifests/read-manifests.js";
import type { Directories } from "./pod-files.js";
import { logDirectory, logPath } from "./pod-files.js";
import { linuxResources, qosClass } from "./resources.js";
import { containerSecurityContext, sandboxSecurityContext } from "./security-context.js";

/** Facts about the node for the configuration of a pod. */
export interface NodeFacts {
  readonly memoryBytes: bigint;
  readonly dns: DnsConfig;
  readonly hostsFile: string;
  readonly seLinux: boolean;
}

/** Other annotations that the kubelet puts on containers. */
const containerHashAnnotation = "io.kubernetes.container.hash";
const restartCountAnnotation = "io.kubernetes.container.restartCount";
const messagePathAnnotation = "io.kubernetes.container.terminationMessagePath";
const messagePolicyAnnotation = "io.kubernetes.container.terminationMessagePolicy";

/** Marks a sandbox as made by `play`; its value is the `podHash` of the manifest. */
export const playHashAnnotation = "dockershim.local/play-hash";

export const defaultGracePeriodSeconds = 30;
const defaultMessagePath = "/dev/termination-log";

export function podLabels({ name, namespace, uid }: PodKey): Readonly<Record<string, string>> {
  return { [podNameLabel]: name, [podNamespaceLabel]: namespace, [podUidLabel]: uid };
}

/** The host name in the pod's containers; empty on the host network. */
export function podHostname({ pod, key }: Manifest): string {
  return (pod.spec.hostname ?? key.name).slice(0, 63).replace(/[-.]+$/, "");
}

export function sandboxConfig(
  manifest: Manifest,
  attempt: number,
  node: NodeFacts,
  directories: Directories,
): Answer<PodSandboxConfig> {
  const { key, pod } = manifest;
  const { spec, metadata } = pod;
  const sysctls = (spec.securityContext?.sysctls ?? []).map(
    ({ name, value }) => [sysctlName(name), value] as const,
  );
  return {
    metadata: { ...key, attempt },
    hostname: spec.hostNetwork === true ? "" : podHostname(manifest),
    log_directory: logDirectory(directories, key),
    dns_config: podDns(spec, node.dns),
    port_mappings: portMappings(spec),
    labels: { ...metadata.labels, ...podLabels(key) },
    annotations: { ...metadata.annotations, [playHashAnnotation]: podHash(manifest) },
    linux: {
      cgroup_parent: "",
      security_context: sandboxSecurityContext(spec),
      sysctls: Object.fromEntries(sysctls),
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
  readonly container: Container | EphemeralContainer;
  readonly attempt: number;
  readonly image: Pick<Image, "id" | "uid" | "username">;
  /** All mounts, with resolved sub paths. */
  readonly mounts: readonly Answer<Mount>[];
  readonly node: NodeFacts;
  readonly directories: Directories;
}

/** Throws an `invalid` ShimError when the container must not run (runAsNonRoot). */
export function containerConfig(input: ContainerConfigInput): Answer<ContainerConfig> {
  const { manifest, container, attempt, image, mounts, node, directories } = input;
  const { spec } = manifest.pod;
  const variables = expandEnvironment(container.env ?? []);
  const expand = (text: string): string => expandVariables(text, variables);
  return {
    metadata: { name: container.name, attempt },
    image: { image: image.id, user_specified_image: container.image },
    command: (container.command ?? []).map(expand),
    args: (container.args ?? []).map(expand),
    working_dir: container.workingDir ?? "",
    envs: [...variables].map(([key, value]) => ({ key, value: Buffer.from(value) })),
    mounts,
    labels: { ...podLabels(manifest.key), [containerNameLabel]: container.name },
    annotations: {
      [containerHashAnnotation]: containerHash(container),
      [restartCountAnnotation]: String(attempt),
      [messagePathAnnotation]: messagePath(container),
      [messagePolicyAnnotation]: container.terminationMessagePolicy ?? "File",
      [gracePeriodAnnotation]: String(spec.terminationGracePeriodSeconds ?? defaultGracePeriodSeconds),
    },
    log_path: logPath(container.name, attempt),
    stdin: container.stdin ?? false,
    stdin_once: container.stdinOnce ?? false,
    tty: container.tty ?? false,
    ...stopSignal(container),
    linux: {
      resources: linuxResources(container, qosClass(spec), node.memoryBytes),
      security_context: containerSecurityContext({
        container,
        spec,
        image,
        seccompDirectory: directories.seccomp,
      }),
    },
  };
}

function stopSignal({
  lifecycle,
}: Pick<Container, "lifecycle">): Pick<Answer<ContainerConfig>, "stop_signal"> {
  if (lifecycle?.stopSignal === undefined) return {};
  const known = `SIGNAL_${lifecycle.stopSignal.replace("+", "PLUS").replace("-", "MINUS")}`;
  const signal = Object.entries(Signal).find(([name]) => name === known);
  if (signal === undefined)
    throw new ShimError("invalid", `lifecycle.stopSignal "${lifecycle.stopSignal}": no such signal`);
  return { stop_signal: signal[1] };
}

/** Where the container finds its termination message file. */
export function messagePath(container: Pick<Container, "terminationMessagePath">): string {
  return posix.resolve("/", container.terminationMessagePath ?? defaultMessagePath);
}
