/** The pods that run at the end of a recording, from the calls that made them. */
import { criMethods } from "../../client/cri-connection.js";
import type { RecordedCall } from "../../compare/recording.js";
import type {
  ContainerConfig,
  CreateContainerRequest,
  PodSandboxConfig,
  RunPodSandboxRequest,
} from "../../shim/domain/cri.js";
import { ShimError } from "../../shim/lib/errors.js";

export interface RecordedContainer {
  readonly config: ContainerConfig;
  readonly started: boolean;
}

export interface RecordedPod {
  readonly config: PodSandboxConfig;
  readonly containers: readonly RecordedContainer[];
}

export interface RecordedPods {
  readonly pods: readonly RecordedPod[];
  /** Sandboxes that were listed and whose creation is not in the recording. */
  readonly unmade: number;
}

/** More than one node has. */
const maximumPods = 500;
const maximumContainers = 5_000;
/** Ids that are remembered to count pods without a creation. */
const maximumIds = 100_000;

interface Pod {
  readonly config: PodSandboxConfig;
  readonly containers: Map<string, { config: ContainerConfig; started: boolean }>;
}

type Json = Readonly<Record<string, unknown>>;

/** Throws `exhausted` for more pods than a node has, and what reading the calls throws. */
export async function readRecordedPods(calls: AsyncIterable<RecordedCall>): Promise<RecordedPods> {
  const pods = new Map<string, Pod>();
  const removed = new Set<string>();
  const listed = new Set<string>();
  const podOf = new Map<string, Pod>();
  for await (const { rpc, request = {}, response, error } of calls) {
    if (error !== undefined || response === undefined) continue;
    const sandboxId = idIn(request, "pod_sandbox_id");
    const container = podOf.get(idIn(request, "container_id"))?.containers;
    switch (rpc) {
      case "RunPodSandbox": {
        const { config } = complete(rpc, request) as RunPodSandboxRequest;
        if (!config?.metadata) break;
        if (pods.size >= maximumPods) {
          throw new ShimError(
            "exhausted",
            `the recording has more than ${maximumPods} pods; use a shorter one`,
          );
        }
        pods.set(idIn(response, "pod_sandbox_id"), { config, containers: new Map() });
        break;
      }
      case "CreateContainer": {
        const { config } = complete(rpc, request) as CreateContainerRequest;
        const pod = pods.get(sandboxId);
        const id = idIn(response, "container_id");
        if (pod === undefined || !config?.metadata) break;
        if (podOf.size >= maximumContainers) {
          throw new ShimError(
            "exhausted",
            `the recording has more than ${maximumContainers} containers; use a shorter one`,
          );
        }
        pod.containers.set(id, { config, started: false });
        podOf.set(id, pod);
        break;
      }
      case "StartContainer":
      case "StopContainer": {
        const found = container?.get(idIn(request, "container_id"));
        if (found !== undefined) found.started = rpc === "StartContainer";
        break;
      }
      case "RemoveContainer":
        container?.delete(idIn(request, "container_id"));
        break;
      case "StopPodSandbox":
      case "RemovePodSandbox":
        pods.delete(sandboxId);
        if (removed.size < maximumIds) removed.add(sandboxId);
        break;
      case "ListPodSandbox":
        for (const item of asList(response["items"]))
          if (listed.size < maximumIds) listed.add(idIn(item, "id"));
        break;
    }
  }
  const made = [...listed].filter((id) => !pods.has(id) && !removed.has(id));
  return {
    pods: [...pods.values()].map(({ config, containers }) => ({
      config,
      containers: [...containers.values()],
    })),
    unmade: made.length,
  };
}

/** A recorded message with the defaults of all members that the recording leaves out. */
function complete(rpc: string, recorded: Json): object {
  const method = criMethods().get(rpc);
  if (method === undefined) throw new ShimError("internal", `no RPC named "${rpc}"`);
  return method.requestDeserialize(method.requestSerialize(withBytes(recorded) as object));
}

/** Bytes are `{"base64"}`, or `{"omitted"}` where they were left out. */
function withBytes(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withBytes);
  if (typeof value !== "object" || value === null) return value;
  const { base64, omitted } = value as { base64?: unknown; omitted?: unknown };
  const isAlone = Object.keys(value).length === 1;
  if (isAlone && typeof base64 === "string") return Buffer.from(base64, "base64");
  if (isAlone && typeof omitted === "number") return Buffer.alloc(0);
  return Object.fromEntries(
    Object.entries(value).map(([key, part]) => [
      key,
      key === "envs" && Array.isArray(part) ? part.map(environment) : withBytes(part),
    ]),
  );
}

/** The protocol has bytes there; recordings have the number of the secret. */
function environment(entry: unknown): unknown {
  const { value } = entry as { value?: unknown };
  return { ...(entry as Json), value: typeof value === "string" ? Buffer.from(value) : withBytes(value) };
}

function idIn(message: Json, key: string): string {
  const id = message[key];
  return typeof id === "string" ? id : "";
}

function asList(value: unknown): readonly Json[] {
  return Array.isArray(value) ? (value as readonly Json[]) : [];
}
