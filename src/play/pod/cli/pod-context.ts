/** What the parts of `dockershim pod` share. */
import type { Readable, Writable } from "node:stream";
import type { ConnectedClient } from "../../client.js";
import { nodeFiles } from "../../containers/files.js";
import type { Directories } from "../../containers/pod-files.js";
import { chooseContainer, type FoundPod } from "../find-pod.js";
import { keptPod } from "../kept-pod.js";
import type { ContainerStatus } from "../../../domain/cri.js";
import type { PodRequest } from "./pod-commands.js";

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

/** Of a pod that play made, the kept manifest tells which containers are sidecars. */
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
