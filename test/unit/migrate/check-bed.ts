/** Nodes with a fake engine, judged: for the tests of `migrate check`. */
import { encodeCheckpoint } from "../../../checkpoints/checkpoint.js";
import { type CheckReport, judge } from "../../../src/migrate/judge/check-report.js";
import { gatherFacts, type GatherOptions } from "../../../src/migrate/node/gather.js";
import type { Target } from "../../../src/migrate/kubelet/target.js";
import { toDockerLabels } from "../../../src/domain/labels.js";
import type { NodeFacts } from "../../../src/domain/node-facts.js";
import type { ListedContainer, ListedImage, Snapshot } from "../../../src/domain/snapshot.js";
import { nodeFacts } from "../../fakes/node-facts.js";
import { idOf, snapshotOf, type SnapshotChanges } from "../../fakes/snapshots.js";
import { kubeadm130, makeNode, type NodeTree } from "./nodes.js";

type FakeEngine = NonNullable<GatherOptions["engine"]>;

/** Answers from memory; `requests` counts. */
export function engineWith(
  containers: readonly Snapshot[],
  { images = [], facts = {} }: { images?: readonly ListedImage[]; facts?: Partial<NodeFacts> } = {},
): FakeEngine {
  const toListed = ({ id, name, labels, created, imageId, imageName, state }: Snapshot): ListedContainer => ({
    ...{ id, labels, created, imageId, imageName },
    names: [name],
    status: state.status,
  });
  return {
    connect: () => Promise.resolve(nodeFacts(facts)),
    listContainers: () => Promise.resolve(containers.map(toListed)),
    inspectContainer: (id) => Promise.resolve(containers.find((one) => one.id === id)),
    listImages: () => Promise.resolve(images),
  };
}

export interface PodRule {
  readonly name: string;
  readonly id: string;
  readonly isOurs?: boolean;
  readonly sandbox?: SnapshotChanges;
  readonly container?: SnapshotChanges;
  readonly labels?: Record<string, string>;
  readonly dockerName?: string;
}

/** A sandbox and one container, with the labels that dockershim and cri-dockerd give, or this program. */
export function pod({
  name,
  id,
  isOurs = false,
  sandbox,
  container,
  labels = {},
  dockerName,
}: PodRule): Snapshot[] {
  const kubelet = { "io.kubernetes.pod.name": name, "io.kubernetes.pod.namespace": "ns" };
  const sandboxId = idOf(id);
  const own = { "io.kubernetes.docker.type": "podsandbox", "io.kubernetes.container.name": "POD" };
  const inner = {
    "io.kubernetes.docker.type": "container",
    "io.kubernetes.container.name": "main",
    "io.kubernetes.sandbox.id": sandboxId,
    "io.kubernetes.container.logpath": `/var/log/pods/${name}/0.log`,
  };
  const made = (all: Record<string, string>): Record<string, string> =>
    isOurs ? { ...toDockerLabels(kubelet, {}, all) } : { ...kubelet, ...all };
  return [
    snapshotOf({
      id: sandboxId,
      name: dockerName ?? `k8s_POD_${name}_ns_uid-${name}_0`,
      labels: made(own),
      networkMode: "none",
      ...(isOurs ? { logDriver: "none" } : {}),
      ...sandbox,
    }),
    snapshotOf({
      id: idOf(`${id}c`),
      name: `k8s_main_${name}_ns_uid-${name}_0`,
      labels: { ...made(inner), ...labels },
      networkMode: `container:${sandboxId}`,
      ...container,
    }),
  ];
}

/** Pods of another program and of this one. */
export const web = pod({ name: "web", id: "a1" });
export const ownWeb = pod({ name: "web", id: "a1", isOurs: true });

export const golden = {
  dockershim: new TextDecoder().decode(
    encodeCheckpoint({
      ...{ version: "v1", name: "a", namespace: "ns" },
      data: { portMappings: [{ protocol: "tcp", containerPort: 80, hostPort: 8080 }] },
    }),
  ),
  // {} with the checksum of cri-dockerd.
  criDockerd: '{"version":"v1","name":"a","namespace":"ns","data":{},"checksum":2305795928}',
};

export function cached(id: string): NodeTree {
  return { [`/var/lib/cni/cache/results/pods-${idOf(id)}-eth0`]: "{}" };
}

export interface CheckRule {
  readonly tree?: NodeTree;
  readonly engine?: FakeEngine;
  readonly target?: Target;
  readonly version?: string;
  readonly inspectMs?: number;
}

export async function check(t: Parameters<typeof makeNode>[0], rule: CheckRule): Promise<CheckReport> {
  const {
    tree = kubeadm130,
    engine = engineWith([]),
    target = "dockershim",
    version = "1.30.1",
    inspectMs = 10_000,
  } = rule;
  const root = makeNode(t, tree);
  const askProgram = (): Promise<undefined> => Promise.resolve(undefined);
  const endpoint = "unix:///run/docker.sock";
  const options = { root, endpoint, engine, kubeletVersion: version, askProgram, inspectMs };
  const facts = await gatherFacts(options, new AbortController().signal);
  return judge(facts, target, { program: "1.2.3", at: "2026-11-23T14:00:00Z" });
}

export function idsOf({ findings }: CheckReport, level?: string): readonly string[] {
  return findings.filter((finding) => level === undefined || finding.level === level).map(({ id }) => id);
}
