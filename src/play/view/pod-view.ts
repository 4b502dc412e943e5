/** The table row of a pod, from its manifest and its observed state. Pure. */
import type { ContainerPort } from "../manifests/pod-schema.js";
import type { Manifest } from "../manifests/read-manifests.js";
import { type ObservedContainer, type ObservedPod, newestSandbox } from "../kubelet/next-step.js";

export type PodState = "Pending" | "Running" | "Succeeded" | "Failed" | "NotReady" | "Absent";

/** Kubernetes' phases, and NotReady for a pod with an ended sandbox, Absent for a pod without a sandbox. */
export function podState({ pod }: Manifest, observed: ObservedPod): PodState {
  const sandbox = newestSandbox(observed.sandboxes);
  if (sandbox === undefined) return "Absent";
  if (!sandbox.isReady) return "NotReady";
  const byName = new Map(observed.containers.map((container) => [container.name, container]));
  const failedInit = (pod.spec.initContainers ?? []).some(({ name }) => hasFailed(byName.get(name)));
  if (failedInit) return "Failed";
  const own = pod.spec.containers.map(({ name }) => byName.get(name));
  if (own.some((container) => container === undefined || container.state === "created")) return "Pending";
  if (own.some((container) => container?.state !== "exited")) return "Running";
  return own.some(hasFailed) ? "Failed" : "Succeeded";
}

export function hasFailed(container: ObservedContainer | undefined): boolean {
  return container?.state === "exited" && container.exitCode !== 0;
}

/** POD, STATE, IP, PORTS, READY. A container without probes is ready while it runs. */
export const tableHeader = ["POD", "STATE", "IP", "PORTS", "READY"] as const;

export function podRow(manifest: Manifest, observed: ObservedPod, ips: readonly string[]): readonly string[] {
  const { key, pod } = manifest;
  const names = new Set(pod.spec.containers.map(({ name }) => name));
  const running = observed.containers.filter(({ name, state }) => names.has(name) && state === "running");
  const ports = pod.spec.containers.flatMap((container) => container.ports ?? []).map(describePort);
  return [
    `${key.namespace}/${key.name}`,
    podState(manifest, observed),
    ips.join(",") || "-",
    ports.join(",") || "-",
    `${running.length}/${names.size}`,
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
