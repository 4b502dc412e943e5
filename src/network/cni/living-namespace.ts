import {
  isProcessPath,
  type NetworkNamespaces,
  type PodNamespace,
} from "../../lib/linux/network-namespaces.js";
import type { CacheEntry } from "../libcni/cache.js";

/**
 * The namespace for a DEL, with an empty path when it is gone. It must be that of the ADD, where that is
 * cached: after a restart of the pause container the pod has another one. A cached path through a process is
 * used only when it is proven to lead to the same namespace.
 */
export function livingNamespace(
  namespaces: NetworkNamespaces,
  { netns = "", netnsIdentity }: Partial<PodNamespace>,
  entry: Pick<CacheEntry, "netns" | "netnsIdentity"> | undefined,
): PodNamespace {
  const added = entry?.netnsIdentity;
  const look = (path: string): string | undefined => {
    const found = path === "" ? undefined : namespaces.look(path);
    return found?.own === false ? found.identity : undefined;
  };
  const given = look(netns);
  if (given !== undefined && given === (netnsIdentity ?? given) && given === (added ?? given)) {
    return { netns, netnsIdentity: given };
  }
  const path = entry?.netns ?? "";
  const cached = look(path);
  const proven = added === undefined ? !isProcessPath(path) : cached === added;
  return cached !== undefined && proven ? { netns: path, netnsIdentity: cached } : { netns: "" };
}
