/** What a replay does with each RPC. Those without a rule are left out, and counted. */
import type { VolatileField } from "../answers/volatile-fields.js";
import type { RecordedCall } from "../record/recording.js";
import { readOnlyRpcs } from "../shadow/shadow-comparison.js";

/** `play`: changes a pod of the replay. `compare`: whole answers. `ask`: whether both fail. */
export type ReplayRule = "play" | "compare" | "ask";

const changing: readonly string[] = [
  "RunPodSandbox",
  "StopPodSandbox",
  "RemovePodSandbox",
  "CreateContainer",
  "StartContainer",
  "StopContainer",
  "RemoveContainer",
  "UpdateContainerResources",
  "UpdatePodSandboxResources",
  "ReopenContainerLog",
  "ExecSync",
  "PullImage",
  "RemoveImage",
];
const asked: readonly string[] = ["Exec", "Attach", "PortForward", "ImageFsInfo", "RuntimeConfig"];

export function replayRule(rpc: string): ReplayRule | undefined {
  if (changing.includes(rpc)) return "play";
  if (asked.includes(rpc)) return "ask";
  return readOnlyRpcs.has(rpc) ? "compare" : undefined;
}

/** Streams of the entries of a list: the RPC that answers the whole list, and both names of the field. */
const lists: Readonly<Record<string, readonly [rpc: string, field: string, listField: string]>> = {
  StreamPodSandboxes: ["ListPodSandbox", "pod_sandboxes", "items"],
  StreamContainers: ["ListContainers", "containers", "containers"],
  StreamContainerStats: ["ListContainerStats", "container_stats", "stats"],
  StreamPodSandboxStats: ["ListPodSandboxStats", "pod_sandbox_stats", "stats"],
  StreamPodSandboxMetrics: ["ListPodSandboxMetrics", "pod_sandbox_metrics", "pod_metrics"],
  StreamImages: ["ListImages", "images", "images"],
};

/** A list that was answered as a stream is the same question as the list. Other calls stay as they are. */
export function asList(call: RecordedCall): RecordedCall {
  const list = Object.hasOwn(lists, call.rpc) ? lists[call.rpc] : undefined;
  const { responses, ...rest } = call;
  if (list === undefined || responses === undefined || call.error !== undefined) return call;
  const [rpc, field, listField] = list;
  const entries = responses.flatMap((response): readonly unknown[] =>
    Array.isArray(response[field]) ? response[field] : [],
  );
  return { ...rest, rpc, response: { [listField]: entries } };
}

/** A call that no pod but one of the replay may get. */
export function concernsOnePod(rpc: string): boolean {
  return replayRule(rpc) === "play" || rpc === "Exec" || rpc === "Attach" || rpc === "PortForward";
}

/** The replay made other objects at another time, and the node has its own names of an image. */
export const ofOtherObjects: readonly VolatileField[] = [
  ...["created_at", "started_at", "finished_at", "network.ip"].map((name) => ({
    field: `*${name}`,
    compared: "by presence" as const,
    reason: "the replay made another object",
  })),
  ...["repo_tags", "repo_digests", "size", "pinned"].map((name) => ({
    field: `images[].${name}`,
    compared: "ignored" as const,
    reason: "what a node has of an image, and under which names, is its own affair",
  })),
];
