/** One container of a pod: its files on the node, its mounts, the CRI call, and the undo. */
import { dirname, join } from "node:path";
import type { Rollback } from "../../shim/lib/rollback.js";
import {
  type Answer,
  ContainerState,
  type Image,
  type Mount,
  type PodSandboxStatus,
} from "../../shim/domain/cri.js";
import type { CriClient } from "../client.js";
import { type NodeFacts, containerConfig, messagePath, podHostname, sandboxConfig } from "./cri-config.js";
import type { PlayFiles } from "./files.js";
import type { Container } from "../manifests/pod-schema.js";
import { hostsFile } from "./dns.js";
import type { VolumeImages } from "./images.js";
import type { Manifest } from "../manifests/read-manifests.js";
import type { ObservedSandbox } from "../kubelet/next-step.js";
import { type Directories, hostsPath, logDirectory, logPath, terminationMessageFile } from "./pod-files.js";
import { safeSubPath } from "./sub-path.js";
import { graceSeconds } from "../kubelet/teardown.js";
import { volumeMounts } from "./volumes.js";

interface CreateContainerInput {
  readonly manifest: Manifest;
  readonly container: Container;
  readonly sandbox: ObservedSandbox;
  readonly image: Image;
  readonly volumeImages: VolumeImages;
  readonly deps: {
    readonly client: CriClient;
    readonly files: PlayFiles;
    readonly node: NodeFacts;
    readonly directories: Directories;
  };
  /** For the undo; none when the undo of the sandbox is enough. */
  readonly rollback?: Rollback;
  readonly signal: AbortSignal;
}

/** play does not restart containers, so each is the first attempt. */
const attempt = 0;

export async function createContainer(input: CreateContainerInput): Promise<void> {
  const { manifest, container, sandbox, image, deps, rollback, signal } = input;
  const { client, files, node, directories } = deps;
  const mounts = [...(await resolvedVolumeMounts(input)), ...(await managedMounts(input))];
  const config = containerConfig({ manifest, container, attempt, image, mounts, node, directories });
  await files.makeDirectory(
    dirname(join(logDirectory(directories, manifest.key), logPath(container.name, attempt))),
  );
  // Before the call, because the server may complete a call that fails here.
  rollback?.defer(`remove container "${container.name}"`, async (undoSignal) => {
    const listed = await client.listContainers(sandbox.id, undoSignal);
    for (const entry of listed.filter(({ metadata }) => metadata?.name === container.name)) {
      if (entry.state === ContainerState.CONTAINER_RUNNING) {
        await client.stopContainer(entry.id, graceSeconds(entry), undoSignal);
      }
      await client.removeContainer(entry.id, undoSignal);
    }
  });
  const sandboxOf = sandboxConfig(manifest, sandbox.attempt, node, directories);
  await client.createContainer(sandbox.id, config, sandboxOf, signal);
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
  const { manifest, container, sandbox, deps, signal } = input;
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
