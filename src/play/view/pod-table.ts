/** The table of played pods, from the kubelet's own statuses. Pure. */
import type { PlayOutput } from "./play-outputs.js";
import { shownText } from "../../lib/shown-text.js";
import type { PodKey } from "../manifests/read-manifests.js";
import type { ContainerPort } from "../manifests/pod-schema.js";
import { hasEnded } from "../pod-rules/pod-status.js";
import { isSidecar } from "../pod-rules/restart-rules.js";
import type { ContainerStatusNow, PodStatus } from "../pod-rules/status-types.js";
import { oneLine } from "./colours.js";
import { ageText, cutText, formatTable } from "./format-table.js";
import { jsonText, yamlText } from "./object-text.js";
import { podList, type ShownPod } from "./pod-object.js";

export interface PodSummaryNow {
  /** As kubectl prints it: `Running`, `Init:0/2`, `CrashLoopBackOff`, `Completed`, `Terminating` … */
  readonly status: string;
  readonly readyContainers: number;
  /** Regular containers and sidecars. */
  readonly containers: number;
  readonly restarts: number;
  /** When a container ended last before a restart, in milliseconds since 1970; 0 for never. */
  readonly lastRestartAt: number;
}

/** By the rules of `kubectl get pods` (1.36). */
export function summarizeNow({ manifest, status, deletedAt }: ShownPod): PodSummaryNow {
  const { spec } = manifest.pod;
  const sidecars = new Set((spec.initContainers ?? []).filter(isSidecar).map(({ name }) => name));
  const containers = spec.containers.length + sidecars.size;
  if (status === undefined)
    return { status: "Pending", readyContainers: 0, containers, restarts: 0, lastRestartAt: 0 };
  const { initContainerStatuses: init, containerStatuses: regular } = status;
  const initReason = reasonOfInit(init, sidecars);
  const isInitialized = initReason === undefined || isTrue(status, "Initialized");
  // Restarts of init containers do not count any more when they have done their work.
  const counted = isInitialized ? [...init.filter(({ name }) => sidecars.has(name)), ...regular] : init;
  const ready = [
    ...init.filter(({ name, started, ready: isReady }) => sidecars.has(name) && started && isReady),
    ...(isInitialized ? regular.filter(({ ready: isReady, state }) => isReady && state.running) : []),
  ];
  let reason = initReason ?? status.reason ?? status.phase;
  if (isInitialized) reason = reasonOfRegular(regular) ?? reason;
  const hasRunning = regular.some(({ ready: isReady, state }) => isReady && state.running !== undefined);
  if (isInitialized && reason === "Completed" && hasRunning)
    reason = isTrue(status, "Ready") ? "Running" : "NotReady";
  if (deletedAt !== undefined && !hasEnded(status)) reason = "Terminating";
  return {
    status: reason,
    readyContainers: ready.length,
    containers,
    restarts: counted.reduce((sum, { restartCount }) => sum + restartCount, 0),
    lastRestartAt: Math.max(0, ...counted.map(({ lastState }) => lastState.terminated?.finishedAt ?? 0)),
  };
}

function isTrue({ conditions }: PodStatus, wanted: PodStatus["conditions"][number]["type"]): boolean {
  return conditions.some(({ type, status }) => type === wanted && status === "True");
}

/** The status of the first init container that has not done its work. */
function reasonOfInit(
  statuses: readonly ContainerStatusNow[],
  sidecars: ReadonlySet<string>,
): string | undefined {
  const isDone = ({ name, state, started }: ContainerStatusNow): boolean =>
    state.terminated?.exitCode === 0 || (sidecars.has(name) && started);
  const index = statuses.findIndex((status) => !isDone(status));
  const state = statuses[index]?.state;
  if (state === undefined) return undefined;
  if (state.terminated !== undefined) return `Init:${reasonOfEnd(state.terminated)}`;
  const { reason = "" } = state.waiting ?? {};
  return reason === "" || reason === "PodInitializing"
    ? `Init:${index}/${statuses.length}`
    : `Init:${reason}`;
}

/** The status of the first container that does not run; undefined when all do. */
function reasonOfRegular(statuses: readonly ContainerStatusNow[]): string | undefined {
  for (const { state } of statuses) {
    if (state.waiting !== undefined && state.waiting.reason !== "") return state.waiting.reason;
    if (state.terminated !== undefined) return reasonOfEnd(state.terminated);
  }
  return undefined;
}

function reasonOfEnd({ reason, exitCode }: { readonly reason: string; readonly exitCode: number }): string {
  return reason === "" ? `ExitCode:${exitCode}` : reason;
}

const header = ["POD", "STATUS", "READY", "RESTARTS", "IP", "PORTS", "AGE", "LAST EVENT"] as const;
const wideHeader = [...header.slice(0, -1), "UID", "IMAGES", "LAST EVENT"] as const;

/** Longer messages of events are cut, except in the wide table. */
const messageWidth = 60;

/** The header and a row for each pod. Everything of pods is escaped. */
export function podRows(
  pods: readonly ShownPod[],
  now: number,
  options: {
    readonly isWide?: boolean;
    readonly messageColumns?: number;
    /** Text that is newer than the last event. */
    readonly progress?: (key: PodKey) => string | undefined;
  } = {},
): readonly (readonly string[])[] {
  const { isWide = false, messageColumns = isWide ? Infinity : messageWidth, progress } = options;
  const rows = pods.map((pod) => {
    const { manifest, status } = pod;
    const { key, pod: object } = manifest;
    const summary = summarizeNow(pod);
    const last =
      summary.restarts === 0 || summary.lastRestartAt === 0
        ? ""
        : ` (${age(summary.lastRestartAt, now)} ago)`;
    const ports = object.spec.containers.flatMap((container) => container.ports ?? []).map(describePort);
    const message = oneLine(progress?.(key) ?? lastText(pod));
    const images = object.spec.containers.map(({ image }) => image);
    return [
      ...[`${key.namespace}/${key.name}`, summary.status],
      ...[`${summary.readyContainers}/${summary.containers}`, `${summary.restarts}${last}`],
      ...[status?.podIPs.join(",") || "-", ports.join(",") || "-"],
      status === undefined ? "-" : age(status.startTime, now),
      ...(isWide ? [key.uid, images.join(",")] : []),
      cutText(message, messageColumns),
    ].map(shownText);
  });
  return [isWide ? wideHeader : header, ...rows];
}

/** Becoming ready is no event of the kubelet: a failed probe of before would stay for ever. */
function lastText({ status, lastEvent }: Pick<ShownPod, "status" | "lastEvent">): string {
  const message = lastEvent?.message ?? "-";
  const isOver =
    /^(Readiness|Startup) probe /.test(message) && status !== undefined && isTrue(status, "Ready");
  return isOver ? "is ready" : message;
}

function age(at: number, now: number): string {
  return ageText(new Date(at).toISOString(), now);
}

/** `80/TCP`, `8080->80/TCP`, `127.0.0.1:8080->80/TCP`. */
function describePort({ containerPort, hostPort, hostIP, protocol = "TCP" }: ContainerPort): string {
  const target = `${containerPort}/${protocol}`;
  if (hostPort === undefined) return target;
  if (hostIP === undefined) return `${hostPort}->${target}`;
  return `${hostIP.includes(":") ? `[${hostIP}]` : hostIP}:${hostPort}->${target}`;
}

/** What `play --output` prints. JSON and YAML are a `v1 List` of Pods. */
export async function renderPlayedPods(
  pods: readonly ShownPod[],
  output: PlayOutput,
  { now, runtimeName }: { readonly now: number; readonly runtimeName: string },
): Promise<string> {
  switch (output) {
    case "table":
    case "wide":
      return formatTable(podRows(pods, now, { isWide: output === "wide" }));
    case "json":
      return jsonText(podList(pods, runtimeName));
    case "yaml":
      return yamlText(podList(pods, runtimeName));
    case "name":
      return pods.map(({ manifest: { key } }) => `${shownText(`${key.namespace}/${key.name}`)}\n`).join("");
  }
}
