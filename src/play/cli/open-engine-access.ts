/** Finds where the engine of a CRI server is for play. */
import { isPortBusy } from "../session/busy-ports.js";
import type { CriClient } from "../cri/client.js";
import { remappedFileCalls } from "../node/file-calls.js";
import { mountedFilesOf, nodeFiles } from "../node/files.js";
import {
  type Directories,
  enginesPath,
  remoteDirectories,
  serverDirectories,
  serverId,
  serversPath,
} from "../pod-config/pod-paths.js";
import { noteServersOfPods } from "../pod-config/servers-of-pods.js";
import { isDefaultEndpoint } from "./play-endpoint.js";
import { dialFromHere } from "../cri/dial.js";
import { readReach, type ServerReach } from "../remote-engine/reach.js";
import type { StatusResponse } from "../../domain/cri.js";
import { directoryId } from "../../lib/files/directory-id.js";
import type { AccessPaths, EngineAccess } from "./engine-access.js";

/** By the server's Status, which says where its engine is. Disposing of the result leaves the pods as they are. */
export async function openEngineAccess(
  client: CriClient,
  { info }: Pick<StatusResponse, "info">,
  paths: AccessPaths,
  signal: AbortSignal,
): Promise<EngineAccess> {
  const reach = readReach(info);
  const isBeside = await isBesideServer(reach);
  if (!isBeside || !reach.hostPaths) {
    const { openRemoteEngineAccess } = await import("./remote-engine-access.js");
    return openRemoteEngineAccess(client, { ...paths, reach, isBeside }, signal);
  }
  const mounted = reach.root === undefined ? nodeFiles : mountedFilesOf(remappedFileCalls(reach.root));
  return {
    files: nodeFiles,
    mounted,
    directories: await directoriesOf(client, paths, signal),
    dial: dialFromHere,
    isPortBusy,
    engine: undefined,
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

/** Where play keeps the records of the server's pods. */
export async function recordDirectories(
  client: Pick<CriClient, "status" | "listPodSandboxes">,
  paths: Pick<AccessPaths, "endpoint" | "directories">,
  signal: AbortSignal,
): Promise<Directories> {
  const { directories } = paths;
  // Without records of such engines the server need not be asked.
  if (!(await nodeFiles.exists(enginesPath(directories)))) return directoriesOf(client, paths, signal);
  const reach = readReach((await client.status(signal)).info);
  if (reach.hostPaths && (await isBesideServer(reach))) return directoriesOf(client, paths, signal);
  return remoteDirectories(directories, reach.engineId);
}

/** For pods whose engine sees files of this host. */
async function directoriesOf(
  client: Pick<CriClient, "listPodSandboxes">,
  { endpoint, directories }: Pick<AccessPaths, "endpoint" | "directories">,
  signal: AbortSignal,
): Promise<Directories> {
  const own = isDefaultEndpoint(endpoint)
    ? { ...directories, sharedBy: serverId(endpoint) }
    : serverDirectories(directories, endpoint);
  const all = { ...own, ofOtherServers: new Map<string, Directories>() };
  // Where there was one socket, all pods are of it.
  if (own.server !== undefined || (await nodeFiles.exists(serversPath(directories))))
    await noteServersOfPods(all, await client.listPodSandboxes({}, signal), nodeFiles);
  return all;
}

/** A server that names no directory is believed to be on this host: only its socket is known. */
async function isBesideServer({ directory }: ServerReach): Promise<boolean> {
  return directory === undefined || (await directoryId(directory.path)) === directory.id;
}
