/** Resolves the host path of a subPath, safe from containers that replace it before the engine mounts it. */
import { ShimError, isKind } from "../../shim/lib/errors.js";
import { ContainerState, type ContainerStatus } from "../../shim/domain/cri.js";
import type { CriClient } from "../client.js";
import type { PlayFiles } from "./files.js";

type Calls = Pick<CriClient, "listContainers" | "containerStatus">;

/**
 * The engine resolves the path again when it mounts it. In between, a container that may write to a parent
 * directory could put a link there and get any directory of the node mounted. So a running container of any
 * pod with such a mount is an error. Later containers are no danger: play starts one container at a time.
 */
export async function safeSubPath(
  { volumePath, subPath }: { readonly volumePath: string; readonly subPath: string },
  { client, files }: { readonly client: Calls; readonly files: PlayFiles },
  signal: AbortSignal,
): Promise<string> {
  const action = `mount subPath "${subPath}" of "${volumePath}"`;
  const path = await files.resolveSubPath(volumePath, subPath);
  for (const { id, metadata, state } of await client.listContainers("", signal)) {
    if (state !== ContainerState.CONTAINER_RUNNING) continue;
    const above = await files.firstAbove(path, writablePaths(await statusOf(id, client, signal)));
    if (above === undefined) continue;
    const writer = `container "${metadata?.name ?? id}" runs and may write to "${above}"`;
    const remedy = "make that mount read-only, or list the container with the subPath first";
    throw new ShimError(
      "precondition",
      `${action}: ${writer}, so it could replace the mounted path; ${remedy}`,
    );
  }
  // A container may have changed the path before the check above.
  if ((await files.resolveSubPath(volumePath, subPath)) === path) return path;
  throw new ShimError("precondition", `${action}: the path was replaced during the check`);
}

/** Undefined when it is gone. */
async function statusOf(
  id: string,
  client: Calls,
  signal: AbortSignal,
): Promise<ContainerStatus | undefined> {
  try {
    return await client.containerStatus(id, signal);
  } catch (error) {
    if (isKind(error, "notFound")) return undefined;
    throw error;
  }
}

function writablePaths(status: ContainerStatus | undefined): readonly string[] {
  const writable = status?.mounts.filter(({ readonly }) => !readonly) ?? [];
  return writable.map(({ host_path }) => host_path).filter((path) => path !== "");
}
