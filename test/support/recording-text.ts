/** A recording of a kubelet that made pods which still run. */
import type { ContainerConfig, PodSandboxConfig } from "../../src/domain/cri.js";

export interface RecordedRequests {
  readonly sandbox: PodSandboxConfig;
  readonly container: ContainerConfig;
}

export type RecordedCall = readonly [rpc: string, request: object, response: object];

export function recordingText(pods: readonly RecordedRequests[]): string {
  const calls = pods.flatMap(({ sandbox, container }, number): RecordedCall[] => {
    const [pod_sandbox_id, container_id] = [`sandbox-${number}`, `container-${number}`];
    return [
      ["RunPodSandbox", { config: sandbox }, { pod_sandbox_id }],
      ["CreateContainer", { pod_sandbox_id, config: container }, { container_id }],
      ["StartContainer", { container_id }, {}],
    ];
  });
  return recordingOf(calls);
}

/** Of a server that answers Version like that. */
export function recordingOf(calls: readonly RecordedCall[], server: object = {}): string {
  const lines = [
    {
      ...{ format: "dockershim-recording", version: 1, startedAt: "2026-01-01T00:00:00Z", server },
      node: { kernel: "6.1", architecture: "x64", cpus: 2, memoryBytes: 1 },
    },
    ...calls.map(([rpc, request, response], at) => ({ at, ms: 1, rpc, request, response })),
    { end: true, calls: calls.length, dropped: 0, reason: "stopped" },
  ];
  return lines.map((line) => `${JSON.stringify(line, bytesAsBase64)}\n`).join("");
}

/** Buffers are `{"type":"Buffer","data":[…]}` when they come here. */
function bytesAsBase64(_key: string, value: unknown): unknown {
  const { type, data } = (value ?? {}) as { type?: unknown; data?: unknown };
  return type === "Buffer" && Array.isArray(data) ? { base64: Buffer.from(data).toString("base64") } : value;
}
