/** Where the engine of a CRI server is for play: on this host, or where it sees no files of this host. */
import type { isPortBusy } from "../session/busy-ports.js";
import type { HostFiles } from "../node/files.js";
import type { MountedFiles } from "../node/mounted-files.js";
import type { Directories } from "../pod-config/pod-paths.js";
import type { Dial } from "../cri/dial.js";
import type { EngineFiles } from "../remote-engine/engine-files.js";
import type { NodeFacts } from "../../domain/node-facts.js";

export interface EngineAccess extends AsyncDisposable {
  readonly files: HostFiles;
  readonly mounted: MountedFiles;
  readonly directories: Directories;
  readonly dial: Dial;
  /** Whether a program of the engine's host has the port, as far as this host can see. */
  readonly isPortBusy: typeof isPortBusy;
  /** Undefined where server and engine see this host's files. */
  readonly engine: RemoteEngine | undefined;
}

export interface RemoteEngine {
  readonly facts: NodeFacts;
  readonly files: EngineFiles;
  /** A name or an address by which this host reaches the engine's; `localhost` for a socket. */
  readonly host: string;
  /** Whether the server reaches the network namespaces of pods, and whether this process is beside it. */
  readonly seesNamespaces: boolean;
  /** Whether the files that the server writes logs into are on this host. */
  readonly seesLogs: boolean;
  /** Whether the server and its engine answer now: either may stand still while this host does not. */
  readonly answers: (signal: AbortSignal) => Promise<boolean>;
}

export interface AccessPaths {
  /** The CRI server: `unix:///PATH`, or the path alone. */
  readonly endpoint: string;
  /** A remote engine, as `--docker-endpoint` of the server; else as the server finds it. */
  readonly dockerEndpoint?: string | undefined;
  readonly directories: Directories;
  readonly report: (line: string) => void;
}
