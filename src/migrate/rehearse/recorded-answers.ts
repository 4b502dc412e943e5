/** Whether this program says of the rehearsed pods what the recorded server said of the pods of its node. */
import { compareAnswers, type CompareOptions } from "../../compare/answers/compare-answers.js";
import type { ServerKind } from "../../compare/answers/server-kind.js";
import { isMessage, valueAt } from "../../compare/answers/answer-shape.js";
import { ContainerState } from "../../domain/cri.js";
import type { Labels } from "../../domain/labels.js";
import { containerSubject, type MadePod, podSubject } from "./scratch-pods.js";
import type { Statuses } from "./statuses.js";
import type { Problem } from "./verdict.js";

type Volatile = NonNullable<CompareOptions["volatile"]>;

const ofAnotherTime = "the time of the rehearsal";
const leftOut = "left out of the rehearsed containers";

const volatile: Volatile = [
  { field: "*created_at", compared: "by presence", reason: ofAnotherTime },
  { field: "*started_at", compared: "by presence", reason: ofAnotherTime },
  { field: "*network.ip", compared: "by presence", reason: "another network" },
  { field: "*network.additional_ips", compared: "ignored", reason: "another network" },
  ...["image", "image_ref", "image_id", "stop_signal"].map(
    (name) => ({ field: `*.${name}`, compared: "ignored", reason: "the pause image" }) as const,
  ),
  ...["mounts", "user", "linux.cpuset_cpus", "linux.cpuset_mems", "linux.oom_score_adj"].map(
    (name) => ({ field: `*.${name}`, compared: "ignored", reason: leftOut }) as const,
  ),
];

export interface RecordedComparison {
  /** Answers, and entries of lists. */
  readonly compared: number;
  /** Containers that had ended by themselves on the recorded node. */
  readonly ended: number;
  readonly problems: readonly Problem[];
}

type Json = Readonly<Record<string, unknown>>;

/** The message of one RPC around what it says of one pod or container. */
const answersAbout = {
  PodSandboxStatus: (status: Json) => ({ status }),
  ListPodSandbox: (item: Json) => ({ items: [item] }),
  ContainerStatus: (status: Json) => ({ status }),
  ListContainers: (item: Json) => ({ containers: [item] }),
};

/** `server`: who answered in the recording. Differences that are intended are none. */
export function compareRecorded(
  pods: readonly MadePod[],
  now: Statuses,
  server: ServerKind,
): RecordedComparison {
  const made = pods.flatMap((pod) => [pod, ...pod.containers]);
  const ids = new Map(made.map(({ id, recorded }) => [recorded.id, id]));
  const servers = { left: server, right: "dockershim" } as const;
  const problems: Problem[] = [];
  let [compared, ended] = [0, 0];
  const compare = (
    rpc: keyof typeof answersAbout,
    { subject, labels }: { readonly subject: string; readonly labels: Labels },
    recorded: unknown,
    found: unknown,
  ): void => {
    if (!isMessage(recorded) || !isMessage(found)) return;
    compared += 1;
    const about = answersAbout[rpc];
    const left = about(withLabels(mapIds(recorded, ids), labels));
    const differences = compareAnswers(rpc, left, about(withLabels(found, labels)), { volatile, servers });
    for (const one of differences.filter(({ intended }) => intended === undefined)) {
      const [is, was] = [one.right, one.left].map((value) => JSON.stringify(value));
      problems.push({ subject, text: `${rpc}: ${one.field} is ${is}, was ${was} on the recorded node` });
    }
  };
  for (const pod of pods) {
    const { answers, config } = pod.recorded;
    const of = { subject: podSubject(pod), labels: config.labels };
    compare("PodSandboxStatus", of, answers.status?.["status"], statusIn(now.pods.get(pod.id)?.answer));
    compare("ListPodSandbox", of, answers.listed, now.listedPods.get(pod.id));
    for (const container of pod.containers) {
      const { answers: last, config: asked } = container.recorded;
      const status = last.status?.["status"];
      if (valueAt(status ?? last.listed, "state") === ContainerState.CONTAINER_EXITED) {
        ended += 1;
        continue;
      }
      const about = { subject: containerSubject(pod, container), labels: asked.labels };
      compare("ContainerStatus", about, status, statusIn(now.containers.get(container.id)?.answer));
      compare("ListContainers", about, last.listed, now.listedContainers.get(container.id));
    }
  }
  return { compared, ended, problems };
}

/** Undefined for an error. */
function statusIn(answer: object | undefined): unknown {
  return valueAt(answer, "status");
}

/** With the ids of the rehearsal. */
function mapIds(recorded: Json, ids: ReadonlyMap<string, string>): Json {
  const text = JSON.stringify(recorded).replaceAll(/[0-9a-f]{64}/g, (id) => ids.get(id) ?? id);
  return JSON.parse(text) as Json;
}

/** With the labels that were asked for: the others are those of images, and that of the rehearsal. */
function withLabels(entity: Json, asked: Labels): Json {
  const labels = Object.entries((entity["labels"] ?? {}) as Labels).filter(([key]) => key in asked);
  return { ...entity, labels: Object.fromEntries(labels) };
}
