/** A recording of a kubelet that made pods which still run. */
import type { ContainerConfig, PodSandboxConfig } from "../../src/domain/cri.js";

export interface RecordedRequests {
  readonly sandbox: PodSandboxConfig;
  readonly container: ContainerConfig;
}

export function recordingText(pods: readonly RecordedRequests[]): string {
  const header = {
    ...{ format: "dockershim-recording", version: 1, startedAt: "2026-01-01T00:00:00Z", server: {} },
    node: { kernel: "6.1", architecture: "x64", cpus: 2, memoryBytes: 1 },
  };
  const calls: object[] = [];
  const add = (rpc: string, request: object, response: object): void => {
    calls.push({ at: calls.length, ms: 1, rpc, request, response });
  };
  for (const [number, { sandbox, container }] of pods.entries()) {
    const [sandboxId, containerId] = [`sandbox-${number}`, `container-${number}`];
    add("RunPodSandbox", { config: sandbox }, { pod_sandbox_id: sandboxId });
    const request = { pod_sandbox_id: sandboxId, config: container };
    add("CreateContainer", request, { container_id: containerId });
    add("StartContainer", { container_id: containerId }, {});
  }
  const lines = [header, ...calls, { end: true, calls: calls.length, dropped: 0, reason: "stopped" }];
  return lines.map((line) => `${JSON.stringify(line, bytesAsBase64)}\n`).join("");
}

/** Buffers are `{"type":"Buffer","data":[…]}` when they come here. */
function bytesAsBase64(_key: string, value: unknown): unknown {
  const { type, data } = (value ?? {}) as { type?: unknown; data?: unknown };
  return type === "Buffer" && Array.isArray(data) ? { base64: Buffer.from(data).toString("base64") } : value;
}
