/** One container of a pod: its files on the node, its mounts and the CRI call. */
import { dirname, join } from "node:path";
import type { Answer, Image, Mount, PodSandboxStatus } from "../../shim/domain/cri.js";
import type { CriClient } from "../client.js";
import { type NodeFacts, containerConfig, messagePath, podHostname, sandboxConfig } from "./cri-config.js";
import type { PlayFiles } from "./files.js";
import type { Container, EphemeralContainer } from "../manifests/pod-schema.js";
import { hostsFile } from "./dns.js";
import type { VolumeImages } from "./images.js";
import type { Manifest } from "../manifests/read-manifests.js";
import { type Directories, hostsPath, logDirectory, logPath, terminationMessageFile } from "./pod-files.js";
import { safeSubPath } from "./sub-path.js";
import { volumeMounts } from "./volumes.js";

interface CreateContainerInput {
  readonly manifest: Manifest;
  readonly container: Container | EphemeralContainer;
  readonly sandbox: { readonly id: string; readonly attempt: number };
  /** How often the container was restarted before. */
  readonly attempt: number;
  readonly image: Image;
  readonly volumeImages: VolumeImages;
  readonly deps: {
    readonly client: CriClient;
    readonly files: PlayFiles;
    readonly node: NodeFacts;
    readonly directories: Directories;
  };
  /** Called just before the CRI call: errors before it are about the configuration. */
  readonly beforeCall?: () => void;
  readonly signal: AbortSignal;
}

/** The id of the new container. */
export async function createContainer(input: CreateContainerInput): Promise<string> {
  const { manifest, container, sandbox, attempt, image, deps, signal } = input;
  const { client, files, node, directories } = deps;
  const mounts = [...(await resolvedVolumeMounts(input)), ...(await managedMounts(input))];
  const config = containerConfig({ manifest, container, attempt, image, mounts, node, directories });
  await files.makeDirectory(
    dirname(join(logDirectory(directories, manifest.key), logPath(container.name, attempt))),
  );
  const sandboxOf = sandboxConfig(manifest, sandbox.attempt, node, directories);
  input.beforeCall?.();
  return client.createContainer(sandbox.id, config, sandboxOf, signal);
}

async function resolvedVolumeMounts(input: CreateContainerInput): Promise<readonly Answer<Mount>[]> {
  const { manifest, container, volumeImages, deps, signal } = input;
  const { key, pod } = manifest;
  const planned = volumeMounts(container, pod.spec, key, deps.directories, deps.node, volumeImages);
  const mounts: Answer<Mount>[] = [];
  for (const { mount, ...source } of planned) {
    if (source.subPath === "") mounts.push(mount);
    else mounts.push({ ...mount, host_path: await safeSubPath(source, deps, signal) });
  }
  return mounts;
}

/** /etc/hosts and the termination message file, unless a volume is mounted there. */
async function managedMounts(input: CreateContainerInput): Promise<readonly Answer<Mount>[]> {
  const { manifest, container, sandbox, attempt, deps, signal } = input;
  const { key, pod } = manifest;
  const { client, files, directories, node } = deps;
  const taken = new Set((container.volumeMounts ?? []).map((mount) => join("/", mount.mountPath)));
  const mounts: Answer<Mount>[] = [];
  const ips = podIps(await client.podSandboxStatus(sandbox.id, signal));
  if (!taken.has("/etc/hosts") && (ips.length > 0 || pod.spec.hostNetwork === true)) {
    const path = hostsPath(directories, key);
    const text = hostsFile(pod.spec, { hostname: podHostname(manifest), ips }, node.hostsFile);
    await files.writeFile(path, text, 0o644);
    mounts.push({ container_path: "/etc/hosts", host_path: path, selinux_relabel: node.seLinux });
  }
  if (!taken.has(messagePath(container))) {
    const path = terminationMessageFile(directories, key, container.name, attempt);
    await files.writeFile(path, "", 0o666);
    mounts.push({ container_path: messagePath(container), host_path: path, selinux_relabel: node.seLinux });
  }
  return mounts;
}

/** All addresses of a pod; none on the host network. */
export function podIps({ network }: Pick<PodSandboxStatus, "network">): readonly string[] {
  if (network === null || network.ip === "") return [];
  return [network.ip, ...network.additional_ips.map(({ ip }) => ip)];
}
