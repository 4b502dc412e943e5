import { ShimError } from "../../lib/errors.js";
import type { NodeFacts } from "../../domain/node-facts.js";
import type { HostFunctions } from "../ports/host.js";
import * as nodeFiles from "./node-files.js";

/** Where a job of the engine's host is out of reach: calls are refused, or left to the Docker API. */
export class RemoteHost implements HostFunctions {
  /** Profiles are read here and sent to the engine as text. */
  readonly readNodeFile = nodeFiles.readNodeFile;
  readonly writeResolvConf = refuse("resolv.conf of the sandbox");
  readonly applyCgroup = refuse("cgroup of the container");
  readonly archiveCheckpoint = refuse("checkpoint of the container");
  readonly endCheckpoint = refuse("checkpoint of the container");
  readonly readCdiSpecs = refuse("CDI specification directory");
  readonly networkNamespace = (): undefined => undefined;
  readonly proveNetworkNamespace = (): undefined => undefined;
  readonly openNetworkNamespace = (): undefined => undefined;
  readonly killProcessTree = (): Promise<boolean> => Promise.resolve(false);
  /** The engine's log file is on its host; logs are read through the API. */
  readonly linkLog = unknown;
  readonly restoreLogLink = (): Promise<boolean> => Promise.resolve(true);
  readonly unlinkLog = unknown;
  readonly deadLogLinks = (): Promise<readonly never[]> => Promise.resolve([]);
  readonly limitsHugepages = (): Promise<boolean> => Promise.resolve(false);
  readonly presentCgroup = unknown;
  readonly setScopeProperties = unknown;
  readonly unitsLoaded = unknown;
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
