/** A node as the pages show it, always the same: of their tests and their picture. */
import type { SandboxRecord } from "../../src/domain/sandbox.js";
import type { PageSources } from "../../src/shim/page/page-sources.js";
import { explain, type Explanation } from "../../src/history/explain.js";
import type { PodRecord } from "../../src/history/find-subjects.js";
import type { RecordedSpan } from "../../src/history/history-record.js";
import { RecentCalls } from "../../src/shim/page/recent-calls.js";
import type { EndedCall } from "../../src/shim/ports/ended-calls.js";
import { ReadModel } from "../../src/shim/state/read-model.js";
import { nodeFacts } from "./node-facts.js";
import { containerSnapshot, idOf, sandboxSnapshot, type SnapshotChanges } from "./snapshots.js";

export const sampleNowMs = Date.UTC(2026, 10, 27, 12, 0, 0);

const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;

/** The CRI's time of so many milliseconds ago. */
export function ago(ms: number): bigint {
  return BigInt(sampleNowMs - ms) * 1_000_000n;
}

export interface SamplePod {
  readonly id: string;
  readonly namespace: string;
  readonly name: string;
  readonly ageMs: number;
  readonly ready?: boolean;
  readonly containers: readonly SampleContainer[];
}

interface SampleContainer {
  readonly name: string;
  readonly image: string;
  readonly attempt?: number;
  readonly state: NonNullable<SnapshotChanges["state"]>;
}

/** Of a pod whose container was killed for its memory. */
export const samplePodId = idOf("d3");

const exited = { status: "exited", running: false, pid: 0 } as const;

const ended = (exitCode: number, startedMs: number, finishedMs: number): SampleContainer["state"] => ({
  ...exited,
  exitCode,
  oomKilled: exitCode === 137,
  started: ago(startedMs),
  finished: ago(finishedMs),
});

const container = (
  name: string,
  image: string,
  state: SampleContainer["state"],
  attempt = 0,
): SampleContainer => ({ name, image: `registry.example/${image}`, state, attempt });

const podOf = (
  id: string,
  namespace: string,
  name: string,
  ageMs: number,
  containers: readonly SampleContainer[],
): SamplePod => ({ id: idOf(id), namespace, name, ageMs, containers });

const samplePods: readonly SamplePod[] = [
  podOf("d1", "shop", "search-5f7c9d6b8-q2x7n", 44 * second, []),
  podOf("d2", "shop", "web-7d4b9c5f6d-8xk2p", 3 * minute + 9 * second, [
    container("web", "shop/web:2.4.1", { started: ago(3 * minute + 2 * second) }),
    container("proxy", "proxy:1.9", { started: ago(3 * minute) }),
  ]),
  podOf("d3", "shop", "queue-0", 47 * minute, [
    container("queue", "shop/queue:1.0.7", ended(137, minute + 30 * second, 52 * second), 2),
    container("queue", "shop/queue:1.0.7", ended(1, 6 * minute, 4 * minute), 1),
  ]),
  {
    ...podOf("d4", "batch", "report-29401230-lw5vt", 5 * hour + 12 * minute, [
      container("report", "report:7", ended(0, 5 * hour + 11 * minute, 5 * hour)),
    ]),
    ready: false,
  },
  podOf("d5", "kube-system", "coredns-6d8c4cb4d-fz9gk", 3 * day + 4 * hour, [
    container("coredns", "coredns:1.12", { started: ago(3 * day + 4 * hour) }),
  ]),
];

/** A read model with these pods. */
export function modelOf(pods: readonly SamplePod[]): ReadModel {
  const records = new Map<string, SandboxRecord>(
    pods.map(({ id, namespace, name, ready = true }) => [
      id,
      {
        ...{ namespace, name, uid: `uid-of-${id.slice(0, 8)}`, attempt: 0 },
        ...{ phase: ready ? "ready" : "stopped", runtimeHandler: "" },
        namespaces: { network: 0, pid: 1, ipc: 0 },
      },
    ]),
  );
  const model = new ReadModel((id) => records.get(id));
  for (const { id, namespace, name, ageMs, ready = true, containers } of pods) {
    const state = {
      running: ready,
      started: ago(ageMs - 400),
      ...(ready ? {} : { ...exited, finished: ago(ageMs / 2) }),
    };
    model.put(sandboxSnapshot(id, { created: ago(ageMs), state }));
    for (const [index, { name: container, image, attempt = 0, state }] of containers.entries()) {
      const made = containerSnapshot(idOf(`${id.slice(0, 8)}c${String(index).padStart(3, "0")}`), id, {
        name: `k8s_${container}_${name}_${namespace}_uid-of-${id.slice(0, 8)}_${String(attempt)}`,
        created: (state.started ?? ago(0)) - 300_000_000n,
        imageName: image,
        state,
      });
      model.put(made);
    }
  }
  return model;
}

export function pageSample(changes: Partial<PageSources> = {}): PageSources {
  return {
    version: "0.3.0",
    nodeVersion: "v26.12.0",
    startedAtMs: sampleNowMs - 3 * day - 4 * hour,
    now: () => sampleNowMs,
    conditions: () => [
      { type: "RuntimeReady", status: true, reason: "", message: "" },
      { type: "NetworkReady", status: true, reason: "", message: "" },
    ],
    link: {
      state: { phase: "live" },
      sinceMs: sampleNowMs - 2 * hour - 7 * minute,
      lastLoss: {
        reason: { message: "read events: the connection was closed by the Docker Engine" },
        atMs: sampleNowMs - 2 * hour - 7 * minute - 3 * second,
      },
      facts: nodeFacts({
        engineVersion: "29.7.2",
        apiMinor: 52,
        engineApiVersion: "1.52",
        cgroupDriver: "systemd",
        cgroupVersion: 2,
        hostName: "worker-3",
      }),
    },
    model: modelOf(samplePods),
    comparedMsAgo: () => 12 * second,
    network: { name: "cni", reason: "the default" },
    underWay: () => [
      {
        rpc: "PullImage",
        pod: "shop/search-5f7c9d6b8-q2x7n",
        ms: 41_300,
        waitsFor: ['pull "registry.example/shop/search:3.0.0" (41 s)'],
      },
      {
        rpc: "StopPodSandbox",
        pod: "batch/import-29401229-9sdkf",
        ms: 12_100,
        waitsFor: ["DEL of the CNI plugin bridge (12 s)"],
      },
    ],
    recent: recentOf(sampleCalls),
    why: (podUid) => Promise.resolve(explanationOf(podUid)),
    ...changes,
  };
}

export function recentOf(calls: readonly EndedCall[]): RecentCalls {
  const recent = new RecentCalls(() => sampleNowMs - hour / 3);
  for (const call of calls) recent.callEnded(call);
  return recent;
}

/** A call that has waited for one thing only. */
export function endedCall(
  wait: string,
  changes: Partial<EndedCall> & Pick<EndedCall, "rpc" | "ms">,
): EndedCall {
  const { ms } = changes;
  return {
    ...{ code: "OK", startedAtMs: sampleNowMs - 10 * minute, startMs: 0, subject: {}, droppedSpans: 0 },
    spans: [{ what: wait, kind: "engine", startMs: 0, endMs: ms * 0.9, children: [] }],
    ...changes,
  };
}

const sampleCalls: readonly EndedCall[] = [
  endedCall('create container "k8s_web_web-7d4b9c5f6d-8xk2p_shop_uid-of-d2_0"', {
    ...{ rpc: "CreateContainer", ms: 412, startedAtMs: sampleNowMs - 3 * minute - 3 * second },
    subject: { pod: "shop/web-7d4b9c5f6d-8xk2p", sandboxId: idOf("d2"), containerName: "web" },
  }),
  endedCall('pull image "registry.example/shop/web:2.4.1"', {
    ...{ rpc: "PullImage", ms: 9_240, startedAtMs: sampleNowMs - 3 * minute - 8 * second },
    subject: { pod: "shop/web-7d4b9c5f6d-8xk2p", image: "registry.example/shop/web:2.4.1" },
  }),
  endedCall("DEL of the CNI plugin bridge", {
    ...{ rpc: "StopPodSandbox", code: "DEADLINE_EXCEEDED", ms: 30_004 },
    message:
      "StopPodSandbox: the deadline of the caller has passed; it waited for: DEL of the CNI plugin bridge (30 s)",
    subject: { pod: "batch/import-29401229-9sdkf", sandboxId: idOf("d8") },
  }),
  endedCall('pull image "registry.example/shop/queue:1.0.8"', {
    ...{ rpc: "PullImage", code: "NOT_FOUND", ms: 310, startedAtMs: sampleNowMs - 7 * minute },
    message: 'pull image "registry.example/shop/queue:1.0.8": manifest unknown',
    subject: { pod: "shop/queue-0", image: "registry.example/shop/queue:1.0.8" },
  }),
];

/** Of the pod whose container was killed. */
function explanationOf(podUid: string): Explanation {
  const image = "registry.example/shop/queue:1.0.7";
  const pod = { pod: "shop/queue-0", podUid, sandboxId: samplePodId };
  const begun = sampleNowMs - 47 * minute;
  const call = (rpc: string, after: number, ms: number, spans: readonly RecordedSpan[], about = {}) =>
    ({ kind: "call", at: begun + after, rpc, ms, code: "OK", subject: { ...pod, ...about }, spans }) as const;
  const span = (kind: RecordedSpan["kind"], what: string, at: number, ms: number): RecordedSpan => ({
    ...{ kind, what, at, ms },
  });
  const queue = { containerName: "queue" };
  const restart = (after: number, ranMs: number, exitCode: number) =>
    [
      call("CreateContainer", after, 210, [span("engine", 'create container "queue"', 20, 160)], queue),
      call("StartContainer", after + 230, 380, [span("engine", 'start container "queue"', 15, 340)], queue),
      {
        ...({ kind: "exit", at: begun + after + 600 + ranMs, ms: ranMs } as const),
        ...{ exitCode, oomKilled: exitCode === 137 },
        subject: { ...pod, ...queue, containerId: idOf("d3c000") },
      },
    ] as const;
  const records: readonly PodRecord[] = [
    call("RunPodSandbox", 0, 1_240, [
      span("engine", 'create container "POD"', 30, 180),
      span("engine", 'start container "POD"', 230, 390),
      span("plugin", 'CNI plugin "bridge" ADD for pod "shop/queue-0"', 640, 520),
    ]),
    call("PullImage", 1_300, 18_700, [span("pull", `pull image "${image}"`, 10, 18_600)], { image }),
    ...restart(20_100, 9 * minute, 137),
    ...restart(41 * minute, 2 * minute, 1),
    ...restart(45 * minute + 29 * second, 38 * second, 137),
  ];
  return explain({ pod: "shop/queue-0", podUid, records }, sampleNowMs);
}
