/** Ulimits of containers. */
import { messageOf, ShimError } from "../../lib/errors.js";
import type { DockerUlimit, HostConfig } from "../../domain/create-body.js";

/** Later lists win by name: the node's defaults, then those of the container. */
export function ulimitsField(...lists: readonly (readonly DockerUlimit[])[]): HostConfig["Ulimits"] {
  const byName = new Map(lists.flat().map((ulimit) => [ulimit.Name, ulimit]));
  return byName.size === 0 ? undefined : [...byName.values()];
}

/** `nofile=1024:524288`; -1 stands for unlimited. */
export function formatUlimit({ Name, Soft, Hard }: DockerUlimit): string {
  return `${Name}=${Soft}:${Hard}`;
}

/**
 * What runc and crun say when the kernel does not let them set a limit. With the errno behind it, because the
 * author of a pod chooses the commands and paths that other errors quote.
 */
const refusedByKernel =
  /(?:error setting rlimit type \d+|setrlimit `?RLIMIT_\w+`?): (?:operation not permitted|invalid argument)\W*(?:unknown)?$/i;

/** The error of a start that failed by `ulimits`; undefined for all others. */
export function ulimitError(error: unknown, ulimits: readonly DockerUlimit[]): ShimError | undefined {
  const message = messageOf(error);
  if (!refusedByKernel.test(message)) return undefined;
  const given =
    ulimits.length === 0
      ? "of the engine's configuration"
      : `of --default-ulimits (${ulimits.map(formatUlimit).join(", ")})`;
  const reason =
    "a hard limit above the engine's own needs CAP_SYS_RESOURCE, and nofile may not exceed fs.nr_open";
  return new ShimError(
    "precondition",
    `set the ulimits ${given}: ${reason}: ${message}`,
    {},
    { cause: error },
  );
}
