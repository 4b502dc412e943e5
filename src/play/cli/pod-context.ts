/** What the parts of `dockershim pod` share. */
import type { Readable, Writable } from "node:stream";
import type { ConnectedClient } from "../cri/client.js";
import { nodeFiles } from "../node/files.js";
import type { Directories } from "../pod-config/pod-paths.js";
import { chooseContainer, type FoundPod, type PodName } from "../pod-commands/find-pod.js";
import type { PortPair } from "../pod-commands/forward-ports.js";
import { keptPod } from "../pod-commands/kept-pod.js";
import type { PsOutput } from "../pod-commands/pod-summary.js";
import type { ContainerStatus } from "../../domain/cri.js";

/** What `dockershim pod` is asked to do. `pod`: its namespace and name. */
export type PodRequest =
  | { readonly verb: "ps"; readonly namespace: string | undefined; readonly output: PsOutput }
  | {
      readonly verb: "logs";
      readonly pod: PodName;
      readonly container: string | undefined;
      readonly all: boolean;
      readonly previous: boolean;
      readonly follow: boolean;
      readonly tail: number | undefined;
      /** Milliseconds before now. */
      readonly sinceMs: number | undefined;
      readonly timestamps: boolean;
      readonly prefix: boolean;
    }
  | {
      readonly verb: "exec";
      readonly pod: PodName;
      readonly container: string | undefined;
      readonly command: readonly string[];
      readonly stdin: boolean;
      readonly tty: boolean;
    }
  | {
      readonly verb: "attach";
      readonly pod: PodName;
      readonly container: string | undefined;
      readonly stdin: boolean;
      readonly tty: boolean;
    }
  | {
      readonly verb: "port-forward";
      readonly pod: PodName;
      readonly pairs: readonly PortPair[];
      readonly addresses: readonly string[];
    }
  | {
      readonly verb: "cp";
      readonly pod: PodName;
      readonly container: string | undefined;
      readonly direction: "from" | "to";
      readonly local: string;
      readonly remote: string;
    }
  | { readonly verb: "describe"; readonly pod: PodName }
  | {
      readonly verb: "events";
      /** Undefined: of all pods. */
      readonly pod: PodName | undefined;
      readonly namespace: string | undefined;
      readonly follow: boolean;
    }
  | {
      readonly verb: "top";
      readonly pod: PodName | undefined;
      readonly namespace: string | undefined;
      readonly containers: boolean;
    }
  | { readonly verb: "down"; readonly pods: readonly PodName[] };

export interface PodOptions {
  readonly request: PodRequest;
  /** Path of the socket of a CRI server. */
  readonly endpoint: string;
}

export interface PodIo {
  readonly stdin: Readable;
  readonly stdout: Writable;
  readonly stderr: Writable;
  /** Ends the command. */
  readonly signal: AbortSignal;
}

export type RequestOf<Verb extends PodRequest["verb"]> = Extract<PodRequest, { readonly verb: Verb }>;

export interface PodContext extends PodIo {
  readonly endpoint: string;
  readonly client: ConnectedClient;
  readonly print: (text: string) => void;
  readonly report: (line: string) => void;
  /** Where play keeps records of pods. */
  readonly records: () => Promise<Directories>;
}

/** The kept manifest of a pod that play made names its sidecars. */
export async function chosenContainer(
  pod: FoundPod,
  name: string | undefined,
  { report, records }: Pick<PodContext, "report" | "records">,
): Promise<ContainerStatus> {
  const kept =
    name === undefined && pod.isPlayed
      ? await keptPod(pod.sandbox, { files: nodeFiles, directories: await records(), report })
      : undefined;
  return chooseContainer(pod, name, kept?.manifest.pod.spec.containers[0]?.name);
}
