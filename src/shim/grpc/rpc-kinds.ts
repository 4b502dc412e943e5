/** Which RPCs change nothing. They come many times a second, so they are logged at debug only. */

const readOnly: ReadonlySet<string> = new Set([
  "Version",
  "Status",
  "RuntimeConfig",
  "PodSandboxStatus",
  "ContainerStatus",
  "ImageStatus",
  "ImageFsInfo",
  "ListPodSandbox",
  "ListContainers",
  "ListImages",
  "PodSandboxStats",
  "ContainerStats",
  "ListPodSandboxStats",
  "ListContainerStats",
  "ListMetricDescriptors",
  "ListPodSandboxMetrics",
  "StreamPodSandboxes",
  "StreamContainers",
  "StreamImages",
  "StreamPodSandboxStats",
  "StreamContainerStats",
  "StreamPodSandboxMetrics",
  "GetContainerEvents",
  // Exec probes: they may change the container, but not what this program knows of it.
  "ExecSync",
]);

export function isReadOnly(rpc: string): boolean {
  return readOnly.has(rpc);
}
