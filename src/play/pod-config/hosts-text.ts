/** The /etc/hosts of a pod's containers. Pure. */
import type { Manifest } from "../manifests/read-manifests.js";
import { type NodeFacts, podDomain, podHostname } from "./cri-config.js";
import { hostsFile } from "./dns.js";
import type { HostsEntry } from "./pod-services.js";

/** What is written is readable by all users of the containers. */
export const hostsMode = 0o644;

export function hostsText(
  manifest: Manifest,
  ips: readonly string[],
  services: readonly HostsEntry[],
  node: Pick<NodeFacts, "hostsFile">,
): string {
  const names = { hostname: podHostname(manifest), domain: podDomain(manifest) };
  return hostsFile(manifest.pod.spec, { ...names, ips }, node.hostsFile, services);
}
