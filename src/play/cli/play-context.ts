/** What the parts of `dockershim play` share. */
import type { Directories } from "../pod-config/pod-paths.js";
import type { ManifestFile } from "../manifests/documents.js";
import { readManifestFiles } from "../manifests/manifest-files.js";
import type { PlayStore } from "../store/play-store.js";
import type { Screen } from "../view/colours.js";
import type { PlayOutput } from "../view/play-outputs.js";

export interface PlayOptions {
  /** Paths of manifests and of directories; `-` is standard input. */
  readonly files: readonly string[];
  /** `unix:///ABSOLUTE/PATH` of a CRI server, or the path alone. */
  readonly endpoint: string;
  /** A remote engine, where play writes files; else found as by the server. */
  readonly dockerEndpoint?: string | undefined;
  readonly follow: boolean;
  /** Removes the pods instead. */
  readonly down: boolean;
  /** Leaves what was made when a pod fails. */
  readonly keep?: boolean;
  /** Returns when all pods are ready and all jobs complete, at most after this time. */
  readonly waitMs?: number | undefined;
  /** Back-off times are a tenth of the kubelet's. */
  readonly fast?: boolean;
  readonly output?: PlayOutput;
  /** Path of an SVG of all steps, written at the end. */
  readonly timeline?: string | undefined;
  /** Also reads the directories below the given ones. */
  readonly recursive?: boolean;
  /** Numbers of pods: `3` for all workloads, `web=3` for one. */
  readonly replicas?: readonly string[];
  /** CronJobs run by their schedule instead of once. */
  readonly schedule?: boolean;
  /** Refuses what is otherwise passed over. */
  readonly strict?: boolean;
  /** Puts local volumes in place of those of storage systems. */
  readonly localVolumes?: boolean;
  /** Returns, and leaves the pods to the supervisor of the endpoint. */
  readonly detach?: boolean;
  /** Applies the files again when they change. */
  readonly watch?: boolean;
  /** Is the supervisor of the endpoint. */
  readonly supervise?: boolean;
  readonly directories?: Partial<Directories>;
}

export interface PlayIo {
  readonly stdout: Screen;
  readonly stderr: Screen;
  /** Read when the command reads it: Node.js opens it then, and a play of files needs none. */
  readonly stdin?: AsyncIterable<string | Uint8Array>;
  /**
   * Ends the command. Before all pods run, play removes what it made; afterwards it keeps the pods.
   */
  readonly signal: AbortSignal;
}

export interface PlayContext {
  readonly options: PlayOptions;
  readonly io: PlayIo;
  readonly directories: Directories;
  readonly store: PlayStore;
  /** One line for the user. */
  readonly report: (line: string) => void;
}

export function readFilesOf({ options, io }: PlayContext): Promise<readonly ManifestFile[]> {
  const { files, recursive = false } = options;
  return readManifestFiles(files, {
    recursive,
    get stdin() {
      return io.stdin;
    },
    signal: io.signal,
  });
}
