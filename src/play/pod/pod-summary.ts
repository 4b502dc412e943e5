/** What `dockershim pod ps` shows of a pod. Pure. */
import { ContainerState, type ContainerStatus, type PodSandboxStatus } from "../../shim/domain/cri.js";
import { shownText } from "../../shim/lib/shown-text.js";
import { formatTable } from "../view/format-table.js";
import { jsonText, yamlText } from "../view/object-text.js";
import { containerName, type FoundPod, mainContainers, newestAttempts } from "./find-pod.js";

/** The shape of `--output json`. Times are RFC 3339. */
export interface PodSummary {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly phase: "Pending" | "Running" | "Succeeded" | "Failed" | "NotReady";
  readonly readyContainers: number;
  readonly restarts: number;
  /** Of the container that ended last. */
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

export function summarize(pod: FoundPod, status: PodSandboxStatus | undefined): PodSummary {
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
    phase: phaseOf(pod, main),
    readyContainers: main.filter(({ state }) => state === ContainerState.CONTAINER_RUNNING).length,
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
  output: PsOutput,
  nowMs: number,
): Promise<string> {
  if (output === "json") return jsonText({ pods });
  if (output === "yaml") return yamlText({ pods });
  if (output === "name")
    return pods.map(({ namespace, name }) => `${shownText(`${namespace}/${name}`)}\n`).join("");
  const isWide = output === "wide";
  const header = ["NAMESPACE", "NAME", "READY", "PHASE", "RESTARTS", "AGE", "ADDRESSES"];
  const rows = pods.map((pod) => [...row(pod, nowMs), ...(isWide ? wideCells(pod) : [])].map(shownText));
  return formatTable([isWide ? [...header, "MADE BY", "SANDBOX", "IMAGES"] : header, ...rows]);
}

function row(pod: PodSummary, nowMs: number): readonly string[] {
  const { lastExit } = pod;
  const exit =
    lastExit === undefined || pod.restarts === 0
      ? ""
      : ` (exit ${lastExit.code}, ${ageText(lastExit.at, nowMs)} ago)`;
  const total = Math.max(pod.readyContainers, pod.containers.length - doneCount(pod));
  return [
    pod.namespace,
    pod.name,
    `${pod.readyContainers}/${total}`,
    pod.phase,
    `${pod.restarts}${exit}`,
    ageText(pod.createdAt, nowMs),
    pod.addresses.join(",") || "-",
  ];
}

/** Containers that have done their work while others run: init containers. */
function doneCount({ phase, containers }: PodSummary): number {
  return phase === "Running" ? containers.filter(({ exitCode }) => exitCode === 0).length : 0;
}

function wideCells({ madeBy, sandbox, containers }: PodSummary): readonly string[] {
  return [madeBy, sandbox.slice(0, 13), containers.map(({ image }) => image).join(",") || "-"];
}

/** As kubectl: `45s`, `3m12s`, `7m`, `5h`, `2d`. */
export function ageText(time: string, nowMs: number): string {
  const seconds = Math.max(0, Math.floor((nowMs - Date.parse(time)) / 1000));
  if (Number.isNaN(seconds)) return "-";
  if (seconds < 120) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 10) return seconds % 60 === 0 ? `${minutes}m` : `${minutes}m${seconds % 60}s`;
  if (minutes < 180) return `${minutes}m`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours}h` : `${Math.floor(hours / 24)}d`;
}
