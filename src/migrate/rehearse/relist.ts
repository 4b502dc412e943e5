/** A client that lists as a kubelet does, and more often: no list may miss a pod or container that runs. */
import { setTimeout as sleep } from "node:timers/promises";
import type { CriConnection } from "../../client/cri-connection.js";
import { ContainerState, PodSandboxState } from "../../domain/cri.js";
import { messageOf } from "../../lib/errors.js";
import { containerSubject, type MadePod, podSubject } from "./scratch-pods.js";
import type { Problem } from "./verdict.js";

const everyMs = 200;

export interface Relisting {
  /** Lists of pods and of containers. */
  readonly lists: number;
  /** The first of each kind and subject. */
  readonly problems: readonly Problem[];
}

/** Lists while `work` goes on. */
export async function whileRelisting<T>(
  pods: readonly MadePod[],
  cri: Pick<CriConnection, "call">,
  signal: AbortSignal,
  work: () => Promise<T>,
): Promise<{ readonly result: T; readonly relisting: Relisting }> {
  const ended = new AbortController();
  const problems = new Map<string, Problem>();
  const expected = expectedIn(pods);
  let lists = 0;
  const add = (subject: string, text: string): void => {
    const key = `${subject} ${text}`;
    if (!problems.has(key)) problems.set(key, { subject, text });
  };
  const isOver = (): boolean => ended.signal.aborted || signal.aborted;
  const relist = async (): Promise<void> => {
    while (!isOver()) {
      try {
        const { items } = await cri.call("ListPodSandbox", {}, { signal });
        const { containers } = await cri.call("ListContainers", {}, { signal });
        lists += 2;
        const states = new Map<string, number>([...items, ...containers].map(({ id, state }) => [id, state]));
        for (const { id, subject, state } of expected) {
          if (!states.has(id)) add(subject, "a list missed it");
          else if (states.get(id) !== state) add(subject, `a list had it with the state ${states.get(id)}`);
        }
      } catch (error) {
        if (!isOver()) add("rehearsal", `a list failed: ${messageOf(error)}`);
      }
      await sleep(everyMs, undefined, { signal: ended.signal }).catch(() => undefined);
    }
  };
  const relisted = relist();
  const result = await work().finally(async () => {
    ended.abort();
    await relisted;
  });
  return { result, relisting: { lists, problems: [...problems.values()] } };
}

function expectedIn(
  pods: readonly MadePod[],
): readonly { readonly id: string; readonly subject: string; readonly state: number }[] {
  return pods.flatMap((pod) => [
    { id: pod.id, subject: podSubject(pod), state: PodSandboxState.SANDBOX_READY },
    ...pod.containers.map((container) => ({
      id: container.id,
      subject: containerSubject(pod, container),
      state: container.recorded.started ? ContainerState.CONTAINER_RUNNING : ContainerState.CONTAINER_CREATED,
    })),
  ]);
}
