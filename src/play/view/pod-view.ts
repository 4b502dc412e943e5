/** The table row of a pod, from its manifest and its observed state. Pure. */
import type { ContainerPort } from "../manifests/pod-schema.js";
import type { Manifest } from "../manifests/read-manifests.js";
import { type ObservedPod, newestContainer } from "../kubelet/observed-pod.js";
import { podStatus } from "../kubelet/pod-status.js";
import type { Phase, PodStatus } from "../kubelet/status-types.js";
import { noProbeResults } from "../kubelet/probe-results.js";

export type PodState = Phase | "NotReady" | "Absent";

/** Kubernetes' phases, and NotReady for a pod with an ended sandbox, Absent for a pod without a sandbox. */
export function podState(manifest: Manifest, observed: ObservedPod): PodState {
  if (observed.sandboxes.length === 0) return "Absent";
  const { phase } = statusOf(manifest, observed);
  if (phase === "Succeeded" || phase === "Failed") return phase;
  return observed.sandboxes[0]?.isReady === true ? phase : "NotReady";
}

function statusOf(manifest: Manifest, observed: ObservedPod): PodStatus {
  const memory = { startTime: 0, waiting: new Map() };
  return podStatus(manifest, observed, noProbeResults, memory, 0);
}

/** POD, STATE, IP, PORTS, READY. A container without probes is ready while it runs. */
export const tableHeader = ["POD", "STATE", "IP", "PORTS", "READY"] as const;

export function podRow(manifest: Manifest, observed: ObservedPod): readonly string[] {
  const { key, pod } = manifest;
  const { containers } = pod.spec;
  const running = containers.filter(({ name }) => newestContainer(observed, name)?.state === "running");
  const ports = containers.flatMap((container) => container.ports ?? []).map(describePort);
  return [
    `${key.namespace}/${key.name}`,
    podState(manifest, observed),
    observed.ips.join(",") || "-",
    ports.join(",") || "-",
    `${running.length}/${containers.length}`,
  ];
}

/** `80/TCP`, `8080->80/TCP`, `127.0.0.1:8080->80/TCP`. */
function describePort({ containerPort, hostPort, hostIP, protocol = "TCP" }: ContainerPort): string {
  const target = `${containerPort}/${protocol}`;
  if (hostPort === undefined) return target;
  if (hostIP === undefined) return `${hostPort}->${target}`;
  return `${hostIP.includes(":") ? `[${hostIP}]` : hostIP}:${hostPort}->${target}`;
}

export function formatTable(rows: readonly (readonly string[])[]): string {
  const widths: number[] = [];
  for (const row of rows) {
    row.forEach((cell, column) => {
      widths[column] = Math.max(widths[column] ?? 0, cell.length);
    });
  }
  const lines = rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd(),
  );
  return lines.map((line) => `${line}\n`).join("");
}
