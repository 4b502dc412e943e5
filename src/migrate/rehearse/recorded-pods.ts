/** The pods that run at the end of a recording, from the calls that made them. */
import { criMethods } from "../../client/cri-messages.js";
import { isMessage, textAt } from "../../compare/answers/answer-shape.js";
import type { RecordedCall } from "../../compare/record/recording.js";
import { type ServerKind, serverKind } from "../../compare/answers/server-kind.js";
import type {
  ContainerConfig,
  CreateContainerRequest,
  PodSandboxConfig,
  RunPodSandboxRequest,
} from "../../domain/cri.js";
import { messageOf, ShimError } from "../../lib/errors.js";

/** The last answers about one pod or container after its last change. */
export interface LastAnswers {
  /** To PodSandboxStatus or ContainerStatus. */
  readonly status?: Json;
  /** Its entry in the list. */
  readonly listed?: Json;
}

export interface RecordedContainer {
  /** The recorded one. */
  readonly id: string;
  readonly config: ContainerConfig;
  readonly started: boolean;
  readonly answers: LastAnswers;
}

export interface RecordedPod {
  /** The recorded one. */
  readonly id: string;
  readonly config: PodSandboxConfig;
  readonly containers: readonly RecordedContainer[];
  readonly answers: LastAnswers;
}

export interface RecordedPods {
  /** Who answered. */
  readonly server: ServerKind;
  readonly pods: readonly RecordedPod[];
  /** Sandboxes that were listed and whose creation is not in the recording. */
  readonly unmade: number;
}

/** More than one node has. */
const maximumPods = 500;
const maximumContainers = 5_000;
/** Ids that are remembered to count pods without a creation. */
const maximumIds = 100_000;

/** What is known of a pod or container; `changedAt`: when its last changing call ended. */
interface Known {
  readonly id: string;
  answers: LastAnswers;
  changedAt: number;
}

interface Container extends Known {
  readonly config: ContainerConfig;
  started: boolean;
}

interface Pod extends Known {
  readonly config: PodSandboxConfig;
  readonly containers: Map<string, Container>;
}

type Json = Readonly<Record<string, unknown>>;

/** `version`: the recorded server's answer to Version. Throws `exhausted` for more pods than a node has. */
export async function readRecordedPods(
  calls: AsyncIterable<RecordedCall>,
  version: object = {},
): Promise<RecordedPods> {
  const pods = new Map<string, Pod>();
  const removed = new Set<string>();
  const listed = new Set<string>();
  const podOf = new Map<string, Pod>();
  let status: Json = {};
  for await (const { rpc, request = {}, response, error, at, ms } of calls) {
    if (error !== undefined || response === undefined) continue;
    const sandboxId = textAt(request, "pod_sandbox_id");
    const container = podOf.get(textAt(request, "container_id"))?.containers;
    const keep = (known: Known | undefined, answers: LastAnswers): void => {
      // An answer to a call that began before the end of a change may be older than the change.
      if (known !== undefined && at >= known.changedAt) known.answers = { ...known.answers, ...answers };
    };
    switch (rpc) {
      case "Status":
        status = response;
        break;
      case "PodSandboxStatus":
        keep(pods.get(sandboxId), { status: response });
        break;
      case "ContainerStatus":
        keep(container?.get(textAt(request, "container_id")), { status: response });
        break;
      case "ListContainers":
        for (const item of asList(response["containers"])) {
          const id = textAt(item, "id");
          keep(podOf.get(id)?.containers.get(id), { listed: item });
        }
        break;
      case "RunPodSandbox": {
        const { config } = complete(rpc, request) as RunPodSandboxRequest;
        if (!config?.metadata) break;
        if (pods.size >= maximumPods) throw tooMany(maximumPods, "pods");
        const id = textAt(response, "pod_sandbox_id");
        pods.set(id, { id, config, containers: new Map(), answers: {}, changedAt: at + ms });
        break;
      }
      case "CreateContainer": {
        const { config } = complete(rpc, request) as CreateContainerRequest;
        const pod = pods.get(sandboxId);
        const id = textAt(response, "container_id");
        if (pod === undefined || !config?.metadata) break;
        if (podOf.size >= maximumContainers) throw tooMany(maximumContainers, "containers");
        pod.containers.set(id, { id, config, started: false, answers: {}, changedAt: at + ms });
        podOf.set(id, pod);
        break;
      }
      case "StartContainer":
      case "StopContainer": {
        const found = container?.get(textAt(request, "container_id"));
        if (found === undefined) break;
        Object.assign(found, { started: rpc === "StartContainer", answers: {}, changedAt: at + ms });
        break;
      }
      case "RemoveContainer":
        container?.delete(textAt(request, "container_id"));
        break;
      case "StopPodSandbox":
      case "RemovePodSandbox":
        pods.delete(sandboxId);
        if (removed.size < maximumIds) removed.add(sandboxId);
        break;
      case "ListPodSandbox":
        for (const item of asList(response["items"])) {
          const id = textAt(item, "id");
          keep(pods.get(id), { listed: item });
          if (listed.size < maximumIds) listed.add(id);
        }
        break;
    }
  }
  const made = [...listed].filter((id) => !pods.has(id) && !removed.has(id));
  return {
    server: serverKind(version, status),
    pods: [...pods.values()].map((pod) => ({ ...pod, containers: [...pod.containers.values()] })),
    unmade: made.length,
  };
}

function tooMany(most: number, what: string): ShimError {
  return new ShimError("exhausted", `the recording has more than ${most} ${what}; use a shorter one`);
}

/** A recorded message with the defaults of all members that the recording leaves out. */
function complete(rpc: string, recorded: Json): object {
  const method = criMethods().get(rpc);
  if (method === undefined) throw new ShimError("internal", `no RPC named "${rpc}"`);
  try {
    return method.requestDeserialize(method.requestSerialize(withBytes(recorded) as object));
  } catch (error) {
    const what = `the recording has a request of ${rpc} that cannot be read`;
    throw new ShimError("invalid", `${what}: ${messageOf(error)}; record again`);
  }
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
  if (!isMessage(entry)) return entry;
  const { value } = entry;
  return { ...entry, value: typeof value === "string" ? Buffer.from(value) : withBytes(value) };
}

function asList(value: unknown): readonly Json[] {
  return Array.isArray(value) ? value.filter(isMessage) : [];
}
