/**
 * `--read-only`: this program beside another runtime, on the same containers. Nothing on the node changes:
 * - RPCs that change something answer FAILED_PRECONDITION, and the engine is only sent GET and HEAD;
 * - the state directory is a temporary one of this process; that of the flag is read for checkpoints alone;
 * - files, processes and networks of the node are only looked at; no network plugin is run or started, no log
 *   written, nothing repaired or cleaned up.
 */
import { lstat, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { checkpointsOf } from "../../domain/docker-root.js";
import { messageOf, ShimError } from "../../lib/errors.js";
import { namesIn } from "../../lib/files/directories.js";
import type { Lifetime } from "../../lib/lifetime.js";
import type { Logger } from "../../lib/log.js";
import type { Rpc, Rpcs } from "../grpc/handlers.js";
import type { CheckpointStore } from "../ports/checkpoint-store.js";
import type { HostAccess } from "../ports/host.js";
import type { NetworkPlugin } from "../ports/network-plugin.js";
import { isStateDirectoryClaimed } from "../state/state-directory.js";
import { openStores, type Stores, type StoresConfig } from "./open-stores.js";

function refuse(action: string): Promise<never> {
  return Promise.reject(new ShimError("precondition", `${action}: this server only reads (--read-only)`));
}

export function readOnlyRpcs(rpcs: Rpcs): Rpcs {
  return new Map(
    [...rpcs].map(([name, rpc]): [string, Rpc] => [
      name,
      // ExecSync is logged as a read, but what it runs may change anything.
      rpc.readOnly && name !== "ExecSync" ? rpc : { ...rpc, handle: () => refuse(name) },
    ]),
  );
}

const directoryPrefix = "dockershim-read-only-";

/** Stores in a temporary directory, which is removed at the end; those of killed servers are removed now. */
export async function openReadOnlyStores(
  { stateDir: root, programName }: StoresConfig,
  log: Logger,
  lifetime: Lifetime,
): Promise<Stores> {
  await removeLeftDirectories(tmpdir()).catch((error: unknown) => {
    log.warn({ err: messageOf(error) }, "cannot remove temporary state directories of killed servers");
  });
  const directory = await mkdtemp(join(tmpdir(), directoryPrefix));
  lifetime.onClose("temporary state directory", () => rm(directory, { recursive: true, force: true }));
  const stores = await openStores({ stateDir: directory, programName }, log, lifetime, [checkpointsOf(root)]);
  const { checkpoints } = stores.records;
  return { ...stores, records: { ...stores.records, checkpoints: readOnlyCheckpoints(checkpoints) } };
}

/** A server claims its directory within this time. */
const claimedMs = 60_000;

/** Temporary directories of killed servers. Only those of this user count, and no link is followed. */
export async function removeLeftDirectories(parent: string): Promise<void> {
  for (const name of await namesIn(parent)) {
    if (!name.startsWith(directoryPrefix)) continue;
    const path = join(parent, name);
    const found = await lstat(path).catch(() => undefined);
    if (found?.isDirectory() !== true || found.uid !== process.geteuid?.()) continue;
    if (Date.now() - found.mtimeMs < claimedMs || (await isStateDirectoryClaimed(path))) continue;
    await rm(path, { recursive: true, force: true });
  }
}

function readOnlyCheckpoints(store: CheckpointStore): CheckpointStore {
  return {
    get: (id) => store.get(id),
    list: () => store.list(),
    flushed: () => Promise.resolve(),
    put: () => refuse("write a checkpoint"),
    remove: () => refuse("remove a checkpoint"),
  };
}

export function readOnlyHost(host: HostAccess): HostAccess {
  return {
    get reach() {
      return host.reach;
    },
    networkNamespace: (...given) => host.networkNamespace(...given),
    proveNetworkNamespace: (...given) => host.proveNetworkNamespace(...given),
    openNetworkNamespace: (...given) => host.openNetworkNamespace(...given),
    deadLogLinks: (...given) => host.deadLogLinks(...given),
    limitsHugepages: () => host.limitsHugepages(),
    presentCgroup: (...given) => host.presentCgroup(...given),
    unitsLoaded: () => host.unitsLoaded(),
    cgroupDirectories: (...given) => host.cgroupDirectories(...given),
    openFileLimits: (...given) => host.openFileLimits(...given),
    writableLayer: (...given) => host.writableLayer(...given),
    layerDirectories: (...given) => host.layerDirectories(...given),
    readNodeFile: (...given) => host.readNodeFile(...given),
    loadedAppArmorProfiles: (...given) => host.loadedAppArmorProfiles(...given),
    readCdiSpecs: (...given) => host.readCdiSpecs(...given),
    imageDirectory: (...given) => host.imageDirectory(...given),
    fileSystemUsage: (...given) => host.fileSystemUsage(...given),
    // The link of a container that the other runtime has removed is that runtime's.
    unlinkLog: () => Promise.resolve(),
    writeResolvConf: () => refuse("write resolv.conf"),
    killProcessTree: () => refuse("kill a process"),
    linkLog: () => refuse("link a log"),
    restoreLogLink: () => refuse("link a log"),
    applyCgroup: () => refuse("set limits of a container"),
    setScopeProperties: () => refuse("set limits of a container"),
    findPaths: () => refuse("look at paths of the node"),
    archiveCheckpoint: () => refuse("archive a checkpoint"),
    endCheckpoint: () => refuse("end a checkpoint"),
  };
}

/** Not started: it answers from its cache and from the namespaces of pods, and counts as ready. */
export function readOnlyNetwork(plugin: NetworkPlugin): NetworkPlugin {
  const { name, reason, dockerNetworkMode, dockerPublishesPorts } = plugin;
  return {
    name,
    reason,
    dockerNetworkMode,
    dockerPublishesPorts,
    start: () => Promise.resolve(),
    engineFound: () => Promise.resolve(),
    stop: () => Promise.resolve(),
    setUpPod: () => refuse("set up the network of a pod"),
    tearDownPod: () => refuse("tear down the network of a pod"),
    podCidrChanged: () => refuse("change the pod CIDRs"),
    podAddresses: (question) => plugin.podAddresses(question),
    notReadyReason: () => undefined,
    describe: () => ({ readOnly: true }),
  };
}
