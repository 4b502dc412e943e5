/**
 * The fault table: what each RPC answers when one of the engine requests that it makes goes wrong. The
 * integration test makes its cases from it, docs/run/faults.md shows it, and tests compare both with it.
 */
import type { Fault } from "./engine-proxy.js";

/**
 * A gRPC code. `NOT_READY`: OK, and the condition RuntimeReady is false. `FAILED`: a session's stream of
 * errors says that it failed. DEADLINE_EXCEEDED of a session: it goes on until its client leaves.
 */
export type Outcome = "OK" | "NOT_READY" | "DEADLINE_EXCEEDED" | "UNAVAILABLE" | "UNKNOWN" | "FAILED";

export interface FaultRow {
  /** Its name; of what a client of its URL does: the name and `session`. */
  readonly rpc: string;
  /** `METHOD /path`, as in `describeRequest`, without its query. */
  readonly request: string;
  /** The versions of the engine's API with this request; undefined: all. */
  readonly api?: "before 1.42" | "1.42 and later";
  /** Which of the matching requests are struck while the call runs. */
  readonly strikes: "every" | "first";
  /** What a fault that is not here would do cannot be told from another one. */
  readonly outcomes: Readonly<Partial<Record<Fault, Outcome>>>;
}

export const faults = ["delay", "stall", "withhold", "close", "lose", "cut", "garble", "error"] as const;

const unanswered = { delay: "OK", stall: "DEADLINE_EXCEEDED", withhold: "DEADLINE_EXCEEDED" } as const;

/** Asked once more when the connection breaks: here the second time fails as well. */
const read: Pick<FaultRow, "strikes" | "outcomes"> = {
  strikes: "every",
  outcomes: {
    ...unanswered,
    ...{ close: "UNAVAILABLE", lose: "UNAVAILABLE", cut: "UNAVAILABLE", garble: "UNKNOWN", error: "UNKNOWN" },
  },
};
/** May be done twice, so it is asked for once more when the connection breaks. The answer has no body. */
const repeatable: Pick<FaultRow, "strikes" | "outcomes"> = {
  strikes: "first",
  outcomes: { ...unanswered, close: "OK", lose: "OK", cut: "OK", error: "UNKNOWN" },
};
/** Must not be done twice. */
const once = { ...read, strikes: "first" } as const;
/** Once more under the same name: what the first one made is found by that. */
const create: Pick<FaultRow, "strikes" | "outcomes"> = {
  strikes: "first",
  outcomes: { ...unanswered, close: "OK", lose: "OK", cut: "OK", garble: "OK", error: "UNKNOWN" },
};

/** What a client of a session hears of. */
const inSession: FaultRow["outcomes"] = {
  ...unanswered,
  ...{ close: "FAILED", lose: "FAILED", cut: "FAILED", garble: "FAILED", error: "FAILED" },
};
/** A terminal of another size is no reason to end a session. */
const resize: Pick<FaultRow, "strikes" | "outcomes"> = {
  strikes: "every",
  outcomes: { delay: "OK", stall: "OK", withhold: "OK", close: "OK", lose: "OK", cut: "OK", error: "OK" },
};
/** Names of images and users of images outside of pods are left out of answers when they are not known. */
const dispensable: Pick<FaultRow, "strikes" | "outcomes"> = {
  strikes: "every",
  outcomes: { ...unanswered, close: "OK", lose: "OK", cut: "OK", garble: "OK", error: "OK" },
};

const createContainer = "POST /containers/create";
const inspectContainer = "GET /containers/ID/json";
const inspectImage = "GET /images/NAME/json";

export const faultTable: readonly FaultRow[] = [
  {
    ...{ rpc: "Status", request: "GET /_ping", strikes: "every" },
    outcomes: {
      // The engine answers other requests.
      ...{ delay: "OK", stall: "OK", withhold: "OK" },
      ...{ close: "NOT_READY", lose: "NOT_READY", cut: "NOT_READY", error: "NOT_READY" },
    },
  },
  { rpc: "RunPodSandbox", request: inspectImage, ...read },
  { rpc: "RunPodSandbox", request: createContainer, ...create },
  {
    ...{ rpc: "RunPodSandbox", request: "POST /containers/ID/start", strikes: "first" },
    outcomes: {
      ...unanswered,
      ...{ close: "UNAVAILABLE", lose: "UNAVAILABLE", cut: "UNAVAILABLE", error: "UNKNOWN" },
    },
  },
  { rpc: "RunPodSandbox", request: inspectContainer, ...read },
  { rpc: "StopPodSandbox", request: "POST /containers/ID/stop", ...repeatable },
  { rpc: "StopPodSandbox", request: inspectContainer, ...read },
  { rpc: "RemovePodSandbox", request: "POST /containers/ID/stop", ...repeatable },
  { rpc: "RemovePodSandbox", request: "DELETE /containers/ID", ...repeatable },
  { rpc: "RemovePodSandbox", request: inspectContainer, ...read },
  { rpc: "CreateContainer", request: createContainer, ...create },
  { rpc: "CreateContainer", request: inspectContainer, ...read },
  {
    // A container that has ended meanwhile would run twice: so it is looked at instead.
    ...{ rpc: "StartContainer", request: "POST /containers/ID/start", strikes: "first" },
    outcomes: { ...unanswered, close: "UNAVAILABLE", lose: "OK", cut: "OK", error: "UNKNOWN" },
  },
  { rpc: "StartContainer", request: inspectContainer, ...read },
  { rpc: "StopContainer", request: "POST /containers/ID/stop", ...repeatable },
  { rpc: "StopContainer", request: inspectContainer, ...read },
  { rpc: "RemoveContainer", request: "DELETE /containers/ID", ...repeatable },
  {
    ...{ rpc: "UpdateContainerResources", request: "POST /containers/ID/update", strikes: "first" },
    outcomes: { ...repeatable.outcomes, garble: "UNKNOWN" },
  },
  { rpc: "UpdateContainerResources", request: inspectContainer, ...read },
  { rpc: "ExecSync", request: "POST /containers/ID/exec", ...once },
  { rpc: "ExecSync", request: "POST /exec/ID/start", ...once },
  { rpc: "ExecSync", request: "GET /exec/ID/json", ...read },
  { rpc: "Exec session", request: "POST /containers/ID/exec", strikes: "first", outcomes: inSession },
  { rpc: "Exec session", request: "POST /exec/ID/start", strikes: "first", outcomes: inSession },
  { rpc: "Exec session", request: "GET /exec/ID/json", strikes: "every", outcomes: inSession },
  { rpc: "Exec session with a terminal", request: "POST /exec/ID/resize", ...resize },
  { rpc: "Attach session", request: "POST /containers/ID/attach", strikes: "first", outcomes: inSession },
  { rpc: "Attach session with a terminal", request: "POST /containers/ID/resize", ...resize },
  { rpc: "ContainerStatus", request: inspectImage, ...dispensable },
  { rpc: "CheckpointContainer", request: inspectImage, ...dispensable },
  { rpc: "ImageFsInfo", request: "GET /system/df", api: "1.42 and later", ...read },
  { rpc: "ImageFsInfo", request: "GET /images/json", api: "before 1.42", ...read },
  { rpc: "ImageFsInfo", request: "GET /images/NAME/history", api: "before 1.42", ...read },
  { rpc: "ListImages", request: "GET /images/json", ...read },
  { rpc: "ListImages", request: "GET /containers/json", ...dispensable },
  { rpc: "StreamImages", request: "GET /images/json", ...read },
  { rpc: "StreamImages", request: "GET /containers/json", ...dispensable },
  { rpc: "ImageStatus", request: inspectImage, ...read },
  { rpc: "ImageStatus", request: "GET /containers/json", ...dispensable },
  { rpc: "ImageStatus", request: "GET /images/NAME/history", ...read },
  { rpc: "PullImage", request: "POST /images/create", ...once },
  { rpc: "PullImage", request: inspectImage, ...read },
  { rpc: "RemoveImage", request: inspectImage, ...read },
  { rpc: "RemoveImage", request: "GET /containers/json", ...read },
  {
    ...{ rpc: "RemoveImage", request: "DELETE /images/NAME", strikes: "first" },
    outcomes: { ...unanswered, close: "OK", lose: "OK", cut: "OK", error: "UNKNOWN" },
  },
];

/** Whether a row is about engines with API 1.`minor`. */
export function concerns({ api }: FaultRow, minor: number): boolean {
  return api === undefined || (api === "1.42 and later") === minor >= 42;
}

/** Answered without a request to the engine, as long as it was reached once and its state is known. */
export const withoutRequests: readonly string[] = [
  ...["Version", "RuntimeConfig", "UpdateRuntimeConfig", "ListPodSandbox", "PodSandboxStatus"],
  ...["ListContainers", "ContainerStatus", "ReopenContainerLog", "UpdatePodSandboxResources"],
  ...["Exec", "Attach", "PortForward", "ContainerStats", "ListContainerStats", "PodSandboxStats"],
  ...["ListPodSandboxStats", "ListMetricDescriptors", "ListPodSandboxMetrics"],
  ...["StreamPodSandboxes", "StreamContainers", "StreamContainerStats", "StreamPodSandboxStats"],
  ...["StreamPodSandboxMetrics", "GetContainerEvents", "PortForward session"],
];

/** `METHOD /path` of a request without version and query, with `ID` and `NAME` for what differs. */
export function requestName(method: string, path: string): string {
  const plain = path
    .replace(/\?.*$/, "")
    .replace(/^\/(containers|exec)\/(?!json$|create$)[^/]+/, "/$1/ID")
    .replace(/^\/images\/(?!json$|create$|load$)(.+?)(\/json|\/history)?$/, "/images/NAME$2");
  return `${method} ${plain}`;
}
