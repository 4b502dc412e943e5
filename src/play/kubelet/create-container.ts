/** One container of a pod: its files on the node, its mounts and the CRI call. */
import { dirname, join } from "node:path";
import type { Answer, Image, Mount, PodSandboxStatus } from "../../domain/cri.js";
import { containerConfig, messagePath, sandboxConfig } from "../pod-config/cri-config.js";
import { containerEnvironment, variableFile } from "../pod-config/environment.js";
import { hostsMode, hostsText } from "../pod-config/hosts-text.js";
import type { Manifest } from "../manifests/read-manifests.js";
import {
  hostsPath,
  logDirectory,
  logPath,
  terminationMessageFile,
  volumePath,
} from "../pod-config/pod-paths.js";
import type { PodContainer } from "../pod-config/resources.js";
import { type VolumeImages, emptyDirKind, volumeMounts } from "../pod-config/volumes.js";
import type { PodDeps } from "./kubelet-deps.js";

export interface CreateContainerInput {
  readonly manifest: Manifest;
  readonly container: PodContainer;
  /** 0 for the first container of this name, and one more for each restart. */
  readonly attempt: number;
  readonly sandbox: { readonly id: string; readonly attempt: number };
  /** The result of `podIps`; the kubelet asks for it once for each sandbox. */
  readonly podIps: readonly string[];
  readonly image: Image;
  readonly volumeImages: VolumeImages;
  /** The container whose processes an ephemeral container sees (targetContainerName), by id. */
  readonly targetId?: string;
  readonly deps: PodDeps;
  /** Called just before the CRI call: errors before it are about the configuration. */
  readonly beforeCall?: () => void;
  readonly signal: AbortSignal;
}

/** Answers the id of the container. */
export async function createContainer(input: CreateContainerInput): Promise<string> {
  const { manifest, container, attempt, sandbox, deps, signal } = input;
  const { client, files, node, directories, services } = deps;
  await services?.prepareSandbox(manifest, { id: sandbox.id, ips: input.podIps }, signal);
  const serviceEnvironment = services?.environment(manifest) ?? new Map<string, string>();
  const variableFiles = await readVariableFiles(input);
  const environment = containerEnvironment({ ...input, node, serviceEnvironment, variableFiles });
  const mounts = [...(await resolvedVolumeMounts(input, environment)), ...(await managedMounts(input))];
  const config = containerConfig({ ...input, mounts, environment, node, directories });
  await files.makeDirectory(
    dirname(join(logDirectory(directories, manifest.key), logPath(container.name, attempt))),
  );
  const sandboxOf = sandboxConfig(manifest, sandbox.attempt, node, directories);
  input.beforeCall?.();
  return client.createContainer(sandbox.id, config, sandboxOf, signal);
}

/** An environment has no more. */
const variableFileBytes = 1024 ** 2;

/** As in the kubelet, a file must be there also when its key is optional. */
async function readVariableFiles({
  manifest,
  container,
  deps: { mounted, directories },
}: CreateContainerInput): Promise<ReadonlyMap<string, string>> {
  const texts = new Map<string, string>();
  for (const { valueFrom } of container.env ?? []) {
    const from = valueFrom?.fileKeyRef;
    if (from === undefined || texts.has(variableFile(from))) continue;
    const volume = volumePath(directories, manifest.key, emptyDirKind, from.volumeName);
    texts.set(variableFile(from), await mounted.readBelow(volume, from.path, variableFileBytes));
  }
  return texts;
}

async function resolvedVolumeMounts(
  input: CreateContainerInput,
  environment: ReadonlyMap<string, string>,
): Promise<readonly Answer<Mount>[]> {
  const { manifest, volumeImages: images, deps } = input;
  const { mounted, node, directories, features } = deps;
  const handler = manifest.pod.spec.runtimeClassName ?? "";
  const recursiveReadOnly = features.recursiveReadOnly.has(handler);
  const planned = volumeMounts({ ...input, node, directories, images, environment, recursiveReadOnly });
  const mounts: Answer<Mount>[] = [];
  for (const { mount, volumePath, subPath, subPathTarget } of planned) {
    if (subPath === "") mounts.push(mount);
    else mounts.push({ ...mount, host_path: await mounted.mountSubPath(volumePath, subPath, subPathTarget) });
  }
  return mounts;
}

/** /etc/hosts and the termination message file, unless a volume is mounted there. */
async function managedMounts(input: CreateContainerInput): Promise<readonly Answer<Mount>[]> {
  const { manifest, container, attempt, podIps: ips, deps, signal } = input;
  const { key, pod } = manifest;
  const { mounted, directories, node, services } = deps;
  const taken = new Set((container.volumeMounts ?? []).map((mount) => join("/", mount.mountPath)));
  const mounts: Answer<Mount>[] = [];
  if (!taken.has("/etc/hosts") && (ips.length > 0 || pod.spec.hostNetwork === true)) {
    const path = hostsPath(directories, key);
    if (services === undefined) await mounted.writeFile(path, hostsText(manifest, ips, [], node), hostsMode);
    else await services.writeHosts(manifest, ips, signal);
    mounts.push({ container_path: "/etc/hosts", host_path: path, selinux_relabel: node.seLinux });
  }
  if (!taken.has(messagePath(container))) {
    const path = terminationMessageFile(directories, key, container.name, attempt);
    await mounted.writeFile(path, "", 0o666);
    mounts.push({ container_path: messagePath(container), host_path: path, selinux_relabel: node.seLinux });
  }
  return mounts;
}

/** All addresses of a pod; none on the host network. */
export function podIps({ network }: Pick<PodSandboxStatus, "network">): readonly string[] {
  if (network === null || network.ip === "") return [];
  return [network.ip, ...network.additional_ips.map(({ ip }) => ip)];
}
