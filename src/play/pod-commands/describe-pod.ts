/** `dockershim pod describe`: one pod as a page. Pure. */
import { ageText } from "../view/format-table.js";
import type { ContainerStatus, PodSandboxStatus } from "../../domain/cri.js";
import { shownText } from "../../lib/shown-text.js";
import type { Container, Probe } from "../manifests/pod-schema.js";
import { containerName, type FoundPod, newestAttempts } from "./find-pod.js";
import { containersOf, type KeptPod } from "./kept-pod.js";
import { eventTime, historyOf } from "./pod-events.js";
import { stateText, summarize, timeText } from "./pod-summary.js";

export interface DescribedPod {
  readonly pod: FoundPod;
  readonly status: PodSandboxStatus;
  /** What play keeps of the pod, where it is known here. */
  readonly kept?: KeptPod;
}

/** Lines of a page. Everything that is not from here is escaped. */
export function describePod({ pod, status, kept }: DescribedPod, nowMs: number): string {
  const summary = summarize(pod, status, kept, nowMs);
  const specs = kept === undefined ? [] : containersOf(kept.manifest.pod.spec);
  const lines = [
    line(0, "Name", summary.name),
    line(0, "Namespace", summary.namespace),
    line(0, "UID", summary.uid),
    line(0, "Phase", summary.phase),
    line(0, "Status", summary.status),
    ...(summary.reason === undefined ? [] : [line(0, "Reason", summary.reason)]),
    ...(summary.message === undefined ? [] : [line(0, "Message", summary.message)]),
    line(0, "Ready", `${summary.readyContainers} of ${summary.wantedContainers} containers run`),
    line(0, "Created", `${summary.createdAt} (${ageText(summary.createdAt, nowMs)} ago)`),
    line(0, "Addresses", summary.addresses.join(", ") || "none of its own"),
    line(0, "Made by", summary.madeBy === "play" ? "dockershim play" : "another client of the CRI"),
    line(0, "Sandbox", `${summary.sandbox} (attempt ${pod.sandbox.metadata?.attempt ?? 0})`),
    ...(pod.sandbox.runtime_handler === "" ? [] : [line(0, "Runtime", pod.sandbox.runtime_handler)]),
    ...mapping("Labels", pod.sandbox.labels),
    ...mapping("Annotations", pod.sandbox.annotations),
    "Containers:",
    ...newestAttempts(pod).flatMap((each) =>
      container(
        each,
        specs.find(({ name }) => name === containerName(each)),
        pod.isPlayed,
      ),
    ),
    "Events (what the CRI knows):",
    ...historyOf(pod).map((event) => `  ${eventTime(event)}  ${shownText(event.what)}`),
  ];
  return `${lines.join("\n")}\n`;
}

function line(depth: number, name: string, value: string): string {
  return `${"  ".repeat(depth)}${`${name}:`.padEnd(14)} ${shownText(value)}`.trimEnd();
}

function mapping(name: string, values: Readonly<Record<string, string>>): readonly string[] {
  const entries = Object.entries(values);
  if (entries.length === 0) return [];
  return [`${name}:`, ...entries.map(([key, value]) => `  ${shownText(`${key}=${value}`)}`)];
}

function container(
  status: ContainerStatus,
  spec: Container | undefined,
  isPlayed: boolean,
): readonly string[] {
  const { id, image, image_ref: reference, started_at: started, finished_at: finished } = status;
  const startedAt = timeText(started);
  const finishedAt = timeText(finished);
  return [
    `  ${shownText(containerName(status))}:`,
    line(2, "State", stateText(status)),
    ...(startedAt === undefined ? [] : [line(2, "Started", startedAt)]),
    ...(finishedAt === undefined ? [] : [line(2, "Finished", finishedAt)]),
    ...(status.message === "" ? [] : [line(2, "Message", status.message)]),
    line(2, "Restarts", String(status.metadata?.attempt ?? 0)),
    line(2, "Image", image?.image ?? ""),
    line(2, "Image ID", reference),
    line(2, "Container ID", id),
    line(2, "Log", status.log_path || "none"),
    ...probes(spec, isPlayed),
    ...(status.mounts.length === 0 ? [] : ["    Mounts:"]),
    ...status.mounts.map(({ container_path: path, host_path: host, readonly, image: from }) => {
      const source = from?.image ? `image ${from.image}` : host;
      return `      ${shownText(`${path} from ${source}${readonly ? " (read-only)" : ""}`)}`;
    }),
  ];
}

function probes(spec: Container | undefined, isPlayed: boolean): readonly string[] {
  if (spec === undefined) return isPlayed ? [] : [line(2, "Probes", "not known to the CRI")];
  const named = [
    ["Startup", spec.startupProbe],
    ["Readiness", spec.readinessProbe],
    ["Liveness", spec.livenessProbe],
  ] as const;
  return named.flatMap(([name, probe]) => (probe === undefined ? [] : [line(2, name, probeText(probe))]));
}

/** `http-get http://:8080/healthz delay=0s timeout=1s period=10s #success=1 #failure=3`, as kubectl. */
export function probeText(probe: Probe): string {
  const { exec, httpGet, tcpSocket, grpc } = probe;
  const handler =
    exec !== undefined
      ? `exec ${JSON.stringify(exec.command)}`
      : httpGet !== undefined
        ? `http-get ${(httpGet.scheme ?? "HTTP").toLowerCase()}://${httpGet.host ?? ""}:${httpGet.port}${httpGet.path ?? "/"}`
        : tcpSocket !== undefined
          ? `tcp-socket ${tcpSocket.host ?? ""}:${tcpSocket.port}`
          : `grpc ${grpc?.port ?? 0} ${grpc?.service ?? ""}`.trimEnd();
  return [
    handler,
    `delay=${probe.initialDelaySeconds ?? 0}s`,
    `timeout=${probe.timeoutSeconds ?? 1}s`,
    `period=${probe.periodSeconds ?? 10}s`,
    `#success=${probe.successThreshold ?? 1}`,
    `#failure=${probe.failureThreshold ?? 3}`,
  ].join(" ");
}
