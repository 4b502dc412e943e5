/** What `dockershim pod ps` shows of a pod. Pure. */
import { ContainerState, type ContainerStatus, type PodSandboxStatus } from "../../domain/cri.js";
import { shownText } from "../../lib/shown-text.js";
import { byAge } from "../pod-rules/observed-pod.js";
import { observedContainer, observedSandbox } from "../kubelet/observe.js";
import { hasEnded, podStatus } from "../pod-rules/pod-status.js";
import type { ProbeResults } from "../pod-rules/probe-results.js";
import type { Phase } from "../pod-rules/status-types.js";
import { ageText, formatTable } from "../view/format-table.js";
import { jsonText, yamlText } from "../view/object-text.js";
import { summarizeNow } from "../view/pod-table.js";
import { containerName, type FoundPod, mainContainers, newestAttempts } from "./find-pod.js";
import type { KeptPod } from "./kept-pod.js";

/** The shape of `--output json`. Times are RFC 3339. */
export interface PodSummary {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly phase: Phase | "NotReady";
  /** What `kubectl get pods` prints: the phase, or a reason such as `Error` or `Init:0/1`. */
  readonly status: string;
  /** Why play has ended the pod, such as `Evicted`. */
  readonly reason?: string;
  readonly message?: string;
  readonly readyContainers: number;
  /** Those that run at the same time. */
  readonly wantedContainers: number;
  readonly restarts: number;
  /** The end of the container that ended last. */
  readonly lastExit?: { readonly container: string; readonly code: number; readonly at: string };
  readonly addresses: readonly string[];
  readonly createdAt: string;
  readonly sandbox: string;
  /** `play`, or another client of the CRI. */
  readonly madeBy: "play" | "other";
  readonly containers: readonly ContainerSummary[];
}

export interface ContainerSummary {
  readonly name: string;
  readonly id: string;
  readonly image: string;
  readonly state: string;
  readonly attempt: number;
  readonly exitCode?: number;
}

const states: Readonly<Record<ContainerState, string>> = {
  [ContainerState.CONTAINER_CREATED]: "created",
  [ContainerState.CONTAINER_RUNNING]: "running",
  [ContainerState.CONTAINER_EXITED]: "exited",
  [ContainerState.CONTAINER_UNKNOWN]: "unknown",
};

export function stateText({ state, exit_code: code, reason }: ContainerStatus): string {
  const known = reason === "" || reason === "Completed" || reason === "Error" ? "" : ` (${reason})`;
  return state === ContainerState.CONTAINER_EXITED ? `exited with code ${code}${known}` : states[state];
}

/** Undefined for a time that has not come. */
export function timeText(nanoseconds: string): string | undefined {
  return /^0*$/.test(nanoseconds)
    ? undefined
    : new Date(Number(BigInt(nanoseconds) / 1_000_000n)).toISOString();
}

/** `kept`: what play keeps of the pod, where it is known here. It alone shows whether a container will run again. */
export function summarize(
  pod: FoundPod,
  status: PodSandboxStatus | undefined,
  kept: KeptPod | undefined,
  now: number,
): PodSummary {
  const main = mainContainers(pod);
  const exited = pod.containers.filter(({ state }) => state === ContainerState.CONTAINER_EXITED);
  const last = exited.reduce<ContainerStatus | undefined>(
    (found, each) =>
      found === undefined || BigInt(each.finished_at) >= BigInt(found.finished_at) ? each : found,
    undefined,
  );
  const { ip = "", additional_ips: more = [] } = status?.network ?? {};
  return {
    namespace: pod.namespace,
    name: pod.name,
    uid: pod.sandbox.metadata?.uid ?? "",
    ...(kept === undefined ? seenState(pod, main) : keptState(pod, kept, now)),
    restarts: newestAttempts(pod).reduce((sum, { metadata }) => sum + (metadata?.attempt ?? 0), 0),
    ...(last === undefined
      ? {}
      : {
          lastExit: {
            container: containerName(last),
            code: last.exit_code,
            at: timeText(last.finished_at) ?? "",
          },
        }),
    addresses: [ip, ...more.map((entry) => entry.ip)].filter((address) => address !== ""),
    createdAt: timeText(pod.sandbox.created_at) ?? "",
    sandbox: pod.sandbox.id,
    madeBy: pod.isPlayed ? "play" : "other",
    containers: newestAttempts(pod).map((each) => ({
      name: containerName(each),
      id: each.id,
      image: each.image?.user_specified_image || each.image?.image || each.image_ref,
      state: states[each.state],
      attempt: each.metadata?.attempt ?? 0,
      ...(each.state === ContainerState.CONTAINER_EXITED ? { exitCode: each.exit_code } : {}),
    })),
  };
}

type State = Pick<
  PodSummary,
  "phase" | "status" | "reason" | "message" | "readyContainers" | "wantedContainers"
>;

/** The results of probes are not known here: what runs is ready. */
const allSuccessful: ProbeResults = { get: () => "success" };

/** By the kubelet's rules. Why a container waits, as for its back-off, is known only to who keeps the pod. */
function keptState(pod: FoundPod, { manifest, end }: KeptPod, now: number): State {
  const observed = {
    sandboxes: [observedSandbox(pod.sandbox)],
    containers: pod.containers.map((each) => observedContainer(each, pod.sandbox.id, "")).sort(byAge),
    ips: [],
    lacksIp: false,
  };
  const startTime = Number(BigInt(pod.sandbox.created_at) / 1_000_000n);
  const memory = { startTime, waiting: new Map(), ...(end === undefined ? {} : { ended: end }) };
  const status = podStatus(manifest, observed, allSuccessful, memory, now);
  const shown = summarizeNow({ manifest, status });
  const counts = { readyContainers: shown.readyContainers, wantedContainers: shown.containers };
  if (!pod.isReady && !hasEnded(status)) return { phase: "NotReady", status: "NotReady", ...counts };
  const { reason, message } = status;
  const why = reason === undefined ? {} : { reason, ...(message === undefined ? {} : { message }) };
  return { phase: status.phase, status: shown.status, ...why, ...counts };
}

/** As far as the CRI shows it. */
function seenState(pod: FoundPod, main: readonly ContainerStatus[]): State {
  const phase = phaseOf(pod, main);
  const ready = main.filter(({ state }) => state === ContainerState.CONTAINER_RUNNING).length;
  const all = newestAttempts(pod);
  // Those that have done their work while others run are init containers.
  const done = phase === "Running" ? all.filter(isDone).length : 0;
  return {
    phase,
    status: phase,
    readyContainers: ready,
    wantedContainers: Math.max(ready, all.length - done),
  };
}

function isDone({ state, exit_code: code }: ContainerStatus): boolean {
  return state === ContainerState.CONTAINER_EXITED && code === 0;
}

function phaseOf({ isReady }: FoundPod, main: readonly ContainerStatus[]): PodSummary["phase"] {
  const isIn = (state: ContainerState) => (each: ContainerStatus) => each.state === state;
  if (main.length > 0 && main.every(isIn(ContainerState.CONTAINER_EXITED)))
    return main.every(({ exit_code: code }) => code === 0) ? "Succeeded" : "Failed";
  if (!isReady) return "NotReady";
  return main.length === 0 || main.every(isIn(ContainerState.CONTAINER_CREATED)) ? "Pending" : "Running";
}

export const psOutputs = ["table", "wide", "json", "yaml", "name"] as const;
export type PsOutput = (typeof psOutputs)[number];

export async function renderPods(
  pods: readonly PodSummary[],
  {
    output,
    headers = true,
    now,
  }: { readonly output: PsOutput; readonly headers?: boolean; readonly now: number },
): Promise<string> {
  if (output === "json") return jsonText({ pods });
  if (output === "yaml") return yamlText({ pods });
  if (output === "name")
    return pods.map(({ namespace, name }) => `${shownText(`${namespace}/${name}`)}\n`).join("");
  const isWide = output === "wide";
  const header = ["NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE", "ADDRESSES"];
  const rows = pods.map((pod) => [...row(pod, now), ...(isWide ? wideCells(pod) : [])].map(shownText));
  const head = isWide ? [...header, "MADE BY", "SANDBOX", "IMAGES"] : header;
  return formatTable(headers ? [head, ...rows] : rows);
}

function row(pod: PodSummary, nowMs: number): readonly string[] {
  const { lastExit } = pod;
  const exit =
    lastExit === undefined || pod.restarts === 0
      ? ""
      : ` (exit ${lastExit.code}, ${ageText(lastExit.at, nowMs)} ago)`;
  return [
    pod.namespace,
    pod.name,
    `${pod.readyContainers}/${pod.wantedContainers}`,
    pod.status,
    `${pod.restarts}${exit}`,
    ageText(pod.createdAt, nowMs),
    pod.addresses.join(",") || "-",
  ];
}

function wideCells({ madeBy, sandbox, containers }: PodSummary): readonly string[] {
  return [madeBy, sandbox.slice(0, 13), containers.map(({ image }) => image).join(",") || "-"];
}
