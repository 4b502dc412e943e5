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

type Request<Verb extends string, Fields> = Readonly<{ verb: Verb } & Fields>;
/** One pod, or all of a namespace, or of all namespaces. */
type SomePods = { pod: PodName | undefined; namespace: string | undefined };
type InContainer = { pod: PodName; container: string | undefined };

interface LogFlags {
  readonly all: boolean;
  readonly previous: boolean;
  readonly follow: boolean;
  readonly tail: number | undefined;
  /** Milliseconds before now. */
  readonly sinceMs: number | undefined;
  readonly timestamps: boolean;
  readonly prefix: boolean;
}

/** What `dockershim pod` is asked to do. */
export type PodRequest =
  | Request<"ps", { namespace: string | undefined; output: PsOutput }>
  | Request<"logs", InContainer & LogFlags>
  | Request<"exec", InContainer & { command: readonly string[]; stdin: boolean; tty: boolean }>
  | Request<"attach", InContainer & { stdin: boolean; tty: boolean }>
  | Request<"port-forward", { pod: PodName; pairs: readonly PortPair[]; addresses: readonly string[] }>
  | Request<"cp", InContainer & { direction: "from" | "to"; local: string; remote: string }>
  | Request<"describe", { pod: PodName }>
  | Request<"events", SomePods & { follow: boolean }>
  | Request<"top", SomePods & { containers: boolean }>
  | Request<"down", { pods: readonly PodName[] }>;

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
