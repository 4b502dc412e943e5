/** What the parts of `dockershim play` share. */
import { existsSync } from "node:fs";
import { playFileHint } from "../../cli/hints.js";
import { ShimError } from "../../lib/errors.js";
import type { Directories } from "../pod-config/pod-paths.js";
import type { ManifestFile } from "../manifests/documents.js";
import { readManifestFiles } from "../manifests/manifest-files.js";
import { endpointFlag } from "./play-endpoint.js";
import type { PlayStore } from "../store/play-store.js";
import type { Screen } from "../view/colours.js";
import type { PlayOutput } from "../view/play-outputs.js";

/** What checks the files: play alone, or also what the server and the node tell. */
export const dryRuns = ["client", "server"] as const;
export type DryRun = (typeof dryRuns)[number];

/** The flags of the same name are described in declare-play.ts. */
export interface PlayOptions {
  /** Paths of manifests and of directories; `-` is standard input. */
  readonly files: readonly string[];
  /** `unix:///ABSOLUTE/PATH` of a CRI server, or the path alone. */
  readonly endpoint: string;
  readonly dockerEndpoint?: string | undefined;
  readonly follow: boolean;
  readonly down: boolean;
  readonly keep?: boolean;
  readonly waitMs?: number | undefined;
  readonly fast?: boolean;
  readonly output?: PlayOutput;
  readonly timeline?: string | undefined;
  readonly recursive?: boolean;
  readonly replicas?: readonly string[];
  readonly schedule?: boolean;
  readonly strict?: boolean;
  readonly localVolumes?: boolean;
  readonly detach?: boolean;
  readonly watch?: boolean;
  readonly supervise?: boolean;
  readonly dryRun?: DryRun | undefined;
  /** Of objects that name none. */
  readonly namespace?: string | undefined;
  /** With `down`: in place of those of the pods. */
  readonly graceSeconds?: number | undefined;
  readonly directories?: Partial<Directories>;
}

export interface PlayIo {
  readonly stdout: Screen;
  readonly stderr: Screen;
  /** Read when the command reads it: Node.js opens it then, and a play of files needs none. */
  readonly stdin?: AsyncIterable<string | Uint8Array>;
  /** Ends the command. Before all pods run, play removes what it made; afterwards it keeps the pods. */
  readonly signal: AbortSignal;
  /** See ProcessIo. */
  readonly commandNames?: (text: string) => string;
}

export interface PlayContext {
  readonly options: PlayOptions;
  readonly io: PlayIo;
  readonly directories: Directories;
  readonly store: PlayStore;
  /** One line for the user. */
  readonly report: (line: string) => void;
}

/** What a command line needs to mean the same objects at the same server. */
export function sameFiles({ files, recursive, namespace, endpoint }: PlayOptions): string {
  const flags = [
    ...(recursive === true ? ["-R"] : []),
    ...(namespace === undefined ? [] : ["-n", namespace]),
  ];
  return [...flags, ...files].join(" ") + endpointFlag(endpoint);
}

export async function readFilesOf({ options, io }: PlayContext): Promise<readonly ManifestFile[]> {
  const { files, recursive = false, namespace } = options;
  for (const file of files) {
    const hint = playFileHint(file);
    if (hint !== undefined && !existsSync(file)) throw new ShimError("invalid", `read "${file}": ${hint}`);
  }
  const read = await readManifestFiles(files, {
    recursive,
    get stdin() {
      return io.stdin;
    },
    signal: io.signal,
  });
  return namespace === undefined ? read : read.map((file) => ({ ...file, namespace }));
}
