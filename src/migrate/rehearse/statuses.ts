/** What a server says of all made pods and containers, and whether two servers, or one twice, say the same. */
import type { CriConnection } from "../../client/cri-connection.js";
import { compareAnswers, type CompareOptions } from "../../compare/answers/compare-answers.js";
import type { Container, PodSandbox } from "../../domain/cri.js";
import { messageOf } from "../../lib/errors.js";
import { containerSubject, type MadePod, podSubject } from "./scratch-pods.js";
import type { Problem } from "./verdict.js";

interface Answer<Message> {
  readonly subject: string;
  readonly answer: Message | { readonly error: { readonly code: string; readonly message: string } };
}

/** By id. */
export interface Statuses {
  readonly pods: ReadonlyMap<string, Answer<Awaited<ReturnType<typeof podStatus>>>>;
  readonly containers: ReadonlyMap<string, Answer<Awaited<ReturnType<typeof containerStatus>>>>;
  readonly listedPods: ReadonlyMap<string, PodSandbox>;
  readonly listedContainers: ReadonlyMap<string, Container>;
}

const volatile: NonNullable<CompareOptions["volatile"]> = [
  {
    field: "status.user",
    compared: "ignored",
    reason: "this program reads it from the process in the background",
  },
  {
    field: "containers_statuses",
    compared: "ignored",
    reason: "containers are asked for by themselves, and one is added to an adopted pod",
  },
];

export async function readStatuses(
  pods: readonly MadePod[],
  cri: CriConnection,
  signal: AbortSignal,
): Promise<Statuses> {
  const ofPods = new Map<string, Answer<Awaited<ReturnType<typeof podStatus>>>>();
  const ofContainers = new Map<string, Answer<Awaited<ReturnType<typeof containerStatus>>>>();
  const failed = (
    error: unknown,
  ): { readonly error: { readonly code: string; readonly message: string } } => {
    signal.throwIfAborted();
    return { error: { code: "", message: messageOf(error) } };
  };
  for (const pod of pods) {
    const answer = await podStatus(cri, pod.id, signal).catch(failed);
    ofPods.set(pod.id, { subject: podSubject(pod), answer });
    for (const container of pod.containers) {
      const of = await containerStatus(cri, container.id, signal).catch(failed);
      ofContainers.set(container.id, { subject: containerSubject(pod, container), answer: of });
    }
  }
  const { items } = await cri.call("ListPodSandbox", {}, { signal });
  const { containers } = await cri.call("ListContainers", {}, { signal });
  return {
    pods: ofPods,
    containers: ofContainers,
    listedPods: new Map(items.map((item) => [item.id, item])),
    listedContainers: new Map(containers.map((item) => [item.id, item])),
  };
}

/** Differences of the second answers that are not intended. */
export function compareStatuses(
  first: Statuses,
  second: Statuses,
  servers?: CompareOptions["servers"],
): readonly Problem[] {
  const options = { volatile, ...(servers === undefined ? {} : { servers }) };
  return [
    ...[...first.pods].map(([id, one]) => ({ rpc: "PodSandboxStatus", one, other: second.pods.get(id) })),
    ...[...first.containers].map(([id, one]) => ({
      rpc: "ContainerStatus",
      one,
      other: second.containers.get(id),
    })),
  ].flatMap(({ rpc, one, other }) =>
    compareAnswers(rpc, one.answer, other?.answer ?? {}, options)
      .filter(({ intended }) => intended === undefined)
      .map(({ field, left, right }) => ({
        subject: one.subject,
        text: `${rpc}: ${field} is ${JSON.stringify(right)}, was ${JSON.stringify(left)}`,
      })),
  );
}

function podStatus(cri: CriConnection, id: string, signal: AbortSignal) {
  return cri.call("PodSandboxStatus", { pod_sandbox_id: id }, { signal });
}

function containerStatus(cri: CriConnection, id: string, signal: AbortSignal) {
  return cri.call("ContainerStatus", { container_id: id }, { signal });
}
