import { readFile, stat } from "node:fs/promises";
import { release } from "node:os";
import { isAbsolute, join } from "node:path";
import { KernelNamespaces } from "../lib/linux/network-namespaces.js";
import { silentLogger, type Logger } from "../lib/log.js";
import type { NodeFacts } from "../domain/node-facts.js";
import type { HostAccess } from "../ports/host.js";
import { LocalHost, noPathFinder, type PathFinder } from "./local-host.js";
import { RemoteHost } from "./remote-host.js";

/**
 * Local when the engine listens on a unix socket, runs under this kernel, and its data root is here to be seen: a
 * Docker Desktop socket leads into a VM with another kernel and without that directory on this side. Where kernels are
 * shared (WSL, engines in containers) a directory of that name may be another engine's: newer ones write their id there.
 */
export async function chooseHost(
  facts: NodeFacts,
  engineEndpoint: string,
  log: Pick<Logger, "warn"> = silentLogger(),
  hostPaths: PathFinder = noPathFinder,
): Promise<HostAccess> {
  const { dockerRootDir, kernelVersion, engineId } = facts;
  if (!engineEndpoint.startsWith("unix://") || kernelVersion !== release()) return new RemoteHost();
  if (!isAbsolute(dockerRootDir)) return new RemoteHost();
  const containers = await stat(join(dockerRootDir, "containers")).catch(() => undefined);
  if (containers?.isDirectory() !== true) return new RemoteHost();
  const writtenId = await readFile(join(dockerRootDir, "engine-id"), "utf8").catch(() => "");
  const isOther = writtenId.trim() !== "" && engineId !== "" && writtenId.trim() !== engineId;
  return isOther ? new RemoteHost() : new LocalHost(facts, log, new KernelNamespaces(), hostPaths);
}
