import { release } from "node:os";
import { stat } from "node:fs/promises";
import { join } from "node:path";
import type { NodeFacts } from "../domain/node-facts.js";
import type { HostAccess } from "../ports/host.js";
import { LocalHost } from "./local-host.js";
import { RemoteHost } from "./remote-host.js";

/**
 * Local when the engine listens on a unix socket, runs under this kernel, and its data root is here to be seen: a
 * Docker Desktop socket leads into a VM with another kernel and without that directory on this side.
 */
export async function chooseHost(facts: NodeFacts, engineEndpoint: string): Promise<HostAccess> {
  if (!engineEndpoint.startsWith("unix://") || facts.kernelVersion !== release()) return new RemoteHost();
  const containers = await stat(join(facts.dockerRootDir, "containers")).catch(() => undefined);
  return containers?.isDirectory() === true ? new LocalHost(facts) : new RemoteHost();
}
