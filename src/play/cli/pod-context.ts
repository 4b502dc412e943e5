/** What the parts of `dockershim pod` share. */
import type { Readable, Writable } from "node:stream";
import type { ConnectedClient } from "../cri/client.js";
import { nodeFiles } from "../node/files.js";
import type { Directories } from "../pod-config/pod-paths.js";
import { chooseContainer, type FoundPod } from "../pod-commands/find-pod.js";
import type { PortPair } from "../pod-commands/forward-ports.js";
import { type KeptPod, keptPod } from "../pod-commands/kept-pod.js";
import type { PodName, PodSelection } from "../pod-commands/pod-names.js";
import type { PsOutput } from "../pod-commands/pod-summary.js";
import type { ContainerStatus } from "../../domain/cri.js";

type Request<Verb extends string, Fields> = Readonly<{ verb: Verb } & Fields>;
type InContainer = { pod: PodName; container: string | undefined };

interface LogFlags {
  /** Of each pod, its containers. */
  readonly all: boolean;
  readonly previous: boolean;
  readonly follow: boolean;
  readonly tail: number | undefined;
  /** Milliseconds before now. */
  readonly sinceMs: number | undefined;
  /** Milliseconds since 1970. */
  readonly sinceTime: number | undefined;
  readonly limitBytes: number | undefined;
  readonly timestamps: boolean;
  readonly prefix: boolean;
  /** A log that cannot be read is reported, and the others are printed. */
  readonly ignoreErrors: boolean;
}

/** What `pod wait` waits for. */
export type WaitFor =
  { readonly what: "ready" | "delete" } | { readonly what: "phase"; readonly phase: string };

/** What `dockershim pod` is asked to do. */
export type PodRequest =
  | Request<"ps", { selection: PodSelection; output: PsOutput; headers: boolean; watch: boolean }>
  /** `isOne`: of a workload that is named, one pod. */
  | Request<"logs", { selection: PodSelection; isOne: boolean; container: string | undefined } & LogFlags>
  | Request<"exec", InContainer & { command: readonly string[]; stdin: boolean; tty: boolean }>
  | Request<"attach", InContainer & { stdin: boolean; tty: boolean }>
  | Request<"port-forward", { pod: PodName; pairs: readonly PortPair[]; addresses: readonly string[] }>
  | Request<"cp", InContainer & { direction: "from" | "to"; local: string; remote: string }>
  | Request<"describe", { selection: PodSelection }>
  | Request<"events", { selection: PodSelection; follow: boolean }>
  | Request<"top", { selection: PodSelection; containers: boolean; sortBy: "cpu" | "memory" | undefined }>
  | Request<"wait", { selection: PodSelection; for: WaitFor; timeoutMs: number }>
  | Request<"down", { selection: PodSelection; graceSeconds: number | undefined }>;

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
  /** See ProcessIo. */
  readonly commandNames?: (text: string) => string;
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

/** What play keeps of a pod that it made on this host. */
export async function keptOf(
  { sandbox, isPlayed }: FoundPod,
  { report, records }: Pick<PodContext, "report" | "records">,
): Promise<KeptPod | undefined> {
  if (!isPlayed) return undefined;
  return keptPod(sandbox, { files: nodeFiles, directories: await records(), report });
}

/** The kept manifest of a pod that play made names its sidecars. */
export async function chosenContainer(
  pod: FoundPod,
  name: string | undefined,
  context: Pick<PodContext, "report" | "records">,
): Promise<ContainerStatus> {
  const kept = name === undefined ? await keptOf(pod, context) : undefined;
  const { status, notice } = chooseContainer(pod, name, kept?.manifest.pod.spec);
  if (notice !== undefined) context.report(notice);
  return status;
}
