/** The cgroup of a pod on the engine's host, where play can make one. */
import { messageOf } from "../../lib/errors.js";
import type { CriClient } from "../cri/client.js";
import type { Manifest } from "../manifests/read-manifests.js";
import type { NodeFacts } from "../pod-config/cri-config.js";
import { type Directories, podId } from "../pod-config/pod-paths.js";
import type { HostFiles } from "./files.js";
import { type PodCgroups, needsPodCgroup, podCgroup } from "../pod-config/pod-cgroup.js";

/** Asks once for all pods: whether cgroups are in reach does not depend on the pod. */
export async function podCgroupsOf(
  client: Pick<CriClient, "cgroupDriver">,
  files: Pick<HostFiles, "checkCgroups">,
  signal: AbortSignal,
): Promise<PodCgroups> {
  const driver = await client.cgroupDriver(signal);
  if (driver === undefined) return { reason: "the CRI server does not report its cgroup driver" };
  try {
    await files.checkCgroups(driver);
  } catch (error) {
    return { reason: messageOf(error) };
  }
  return { driver };
}

/** Makes the pod's cgroup, or renews its limits. Where there can be none, answers what that means. */
export async function prepareCgroup(
  { key, pod }: Pick<Manifest, "key" | "pod">,
  {
    files,
    node,
    directories,
  }: {
    readonly files: Pick<HostFiles, "makeCgroup">;
    readonly node: NodeFacts;
    readonly directories: Directories;
  },
): Promise<string | undefined> {
  const { podCgroups } = node;
  if (podCgroups.driver !== undefined) {
    await files.makeCgroup(podCgroup(podId(directories, key), pod.spec, podCgroups.driver, node));
    return undefined;
  }
  if (!needsPodCgroup(pod.spec)) return undefined;
  return `spec.resources.limits is the limit of each container, not of all together: ${podCgroups.reason}`;
}
