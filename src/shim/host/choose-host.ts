import { readFile, stat } from "node:fs/promises";
import { release } from "node:os";
import { isAbsolute, join } from "node:path";
import { KernelNamespaces } from "../lib/linux/network-namespaces.js";
import { type Logger, silentLogger } from "../lib/log.js";
import type { NodeFacts } from "../domain/node-facts.js";
import type { HostAccess } from "../ports/host.js";
import { LocalHost, noPathFinder, type PathFinder } from "./local-host.js";
import { ShimError } from "../lib/errors.js";
import * as nodeFiles from "./node-files.js";

/**
 * Local when the engine listens on a unix socket, runs under this kernel, and its data root is visible here:
 * the socket of Docker Desktop leads into a VM with another kernel, whose directories are not visible. Where
 * engines share a kernel (WSL, engines in containers) the directory may belong to another engine: newer ones
 * write their id there.
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

/**
 * The engine runs on another host (Docker Desktop's VM, a remote socket): its files and processes are out of
 * reach. Calls that need them are refused, or left to the Docker API. DNS settings go into the create request
 * instead.
 */
export class RemoteHost implements HostAccess {
  readonly local = false;
  /** Profiles are read here and sent to the engine as text. */
  readonly readNodeFile = nodeFiles.readNodeFile;
  readonly writeResolvConf = refuse("resolv.conf of the sandbox");
  readonly applyCgroup = refuse("cgroup of the container");
  readonly archiveCheckpoint = refuse("checkpoint of the container");
  readonly readCdiSpecs = refuse("CDI specification directory");
  readonly networkNamespace = (): undefined => undefined;
  readonly openNetworkNamespace = (): undefined => undefined;
  readonly killProcessTree = (): Promise<boolean> => Promise.resolve(false);
  /** The engine's log file is on its host; logs are read through the API. */
  readonly linkLog = unknown;
  readonly restoreLogLink = (): Promise<boolean> => Promise.resolve(true);
  readonly unlinkLog = unknown;
  readonly deadLogLinks = (): Promise<readonly never[]> => Promise.resolve([]);
  readonly presentCgroup = unknown;
  readonly cgroupDirectories = unknown;
  readonly openFileLimits = unknown;
  readonly writableLayer = unknown;
  readonly layerDirectories = unknown;
  /** The engine itself looks at paths, and makes missing directories where it is asked to. */
  readonly findPaths = unknown;
  readonly loadedAppArmorProfiles = unknown;
  readonly fileSystemUsage = unknown;

  imageDirectory({ dockerRootDir }: NodeFacts): Promise<string> {
    return Promise.resolve(dockerRootDir);
  }
}

function unknown(): Promise<undefined> {
  return Promise.resolve(undefined);
}

function refuse(what: string): () => Promise<never> {
  const message = `the ${what} is out of reach: the Docker Engine runs on another host`;
  return () => Promise.reject(new ShimError("unsupported", message));
}
