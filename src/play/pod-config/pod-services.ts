/** What the Services of a play give to its pods; see services/services.ts. */
import type { Manifest } from "../manifests/read-manifests.js";

/** A line of /etc/hosts. */
export interface HostsEntry {
  readonly address: string;
  readonly names: readonly string[];
}

export interface PodServices {
  /** Before a container is created: makes the ports of Services lead to those of the pod. Never rejects. */
  prepareSandbox(
    manifest: Manifest,
    sandbox: { readonly id: string; readonly ips: readonly string[] },
    signal: AbortSignal,
  ): Promise<void>;
  /** Writes the pod's /etc/hosts with the names of Services, and keeps it up to date from now on. */
  writeHosts(manifest: Manifest, ips: readonly string[], signal: AbortSignal): Promise<void>;
  /** Variables that name the Services of the pod's namespace, of those that have an address now. */
  environment(manifest: Manifest): ReadonlyMap<string, string>;
}
