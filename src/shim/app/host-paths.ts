/** Looks at paths of the node that requests name, by the helper process of this architecture. */
import { arch } from "node:process";
import type { Lifetime } from "../lib/lifetime.js";
import type { Logger } from "../lib/log.js";
import { HostPaths } from "../host/host-paths/host-paths.js";
import { HostPathsProcess } from "../host/host-paths/host-paths-process.js";
import { programPath } from "../pause/programs.js";

/** No process is started before use. */
export function createHostPaths(log: Logger, lifetime: Lifetime): HostPaths {
  const helper = new HostPathsProcess({ program: () => programPath("host-paths", arch), log });
  lifetime.onClose("helper for paths of the node", () => helper.close());
  return new HostPaths({ helper, log });
}
