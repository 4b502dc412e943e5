/**
 * The rehearsal of a node on a scratch host: the recorded pods are made as the node's runtime made them, this
 * program takes them over, makes one of everything new, and gives them back.
 */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { type CriConnection, connectToServer } from "../../client/cri-connection.js";
import { sandboxType, typeLabel } from "../../shim/domain/labels.js";
import type { Snapshot } from "../../shim/domain/snapshot.js";
import { messageOf, ShimError } from "../../shim/lib/errors.js";
import type { ContainerCalls } from "../../shim/ports/engine.js";
import { convertCheckpoints } from "../way-back.js";
import { checkCheckpoints } from "./check-checkpoints.js";
import { checkAnswers, checkByLegacyRules } from "./check-pods.js";
import type { LegacyNode } from "./legacy-bodies.js";
import { makeNew, type NewResult } from "./new-pods.js";
import type { RecordedPods } from "./recorded-pods.js";
import { flavourOf, makePod, type MadePod, podSubject, rehearsalLabel, removeMade } from "./scratch-pods.js";
import { compareStatuses, readStatuses, type Statuses } from "./statuses.js";
import type { Finding, StepName, Verdict } from "./verdict.js";

/** A server that runs for a while. */
export interface RunningServer {
  /** `unix:///path` */
  readonly endpoint: string;
  stop(): Promise<void>;
}

export interface RehearsalParts {
  readonly recording: string;
  readonly recorded: RecordedPods;
  readonly engine: ContainerCalls;
  readonly node: LegacyNode;
  /** Private, of this rehearsal; the caller removes it. */
  readonly directory: string;
  /** Although the engine has pods. */
  readonly anyway: boolean;
  /** Starts this program with the state directory `<directory>/state`; returns when it serves. */
  startProgram(signal: AbortSignal): Promise<RunningServer>;
  /** Starts a real cri-dockerd, where one is given. */
  readonly startOther?: (signal: AbortSignal) => Promise<RunningServer>;
}

const cleanUpMs = 120_000;

/** Removes everything that it made, whatever happens. Throws what made it impossible. */
export async function rehearse(parts: RehearsalParts, signal: AbortSignal): Promise<Verdict> {
  const { engine, directory, recorded, node, recording } = parts;
  if (!parts.anyway) await refuseOtherPods(engine, signal);
  const findings: Finding[] = [];
  const steps: { name: StepName; did: string }[] = [];
  const note = (step: StepName, found: readonly Omit<Finding, "step">[]): void => {
    findings.push(...found.map((one) => ({ step, ...one })));
  };
  let pods: readonly MadePod[] = [];
  try {
    // So that the pause image is there.
    await withProgram(parts, signal, async (cri) => {
      await makeNew(cri, { directory, image: node.pauseImage, only: "pod" }, signal);
    });
    pods = await makePods(parts, note, signal);
    const containers = pods.flatMap((pod) => pod.containers);
    steps.push({ name: "make", did: `${pods.length} pods and ${containers.length} containers were made` });
    const ids = [...pods.map(({ id }) => id), ...containers.map(({ id }) => id)];
    const before = await snapshots(engine, ids, signal);

    const { made, statuses } = await withProgram(parts, signal, async (cri) => {
      const first = await checkAnswers(pods, cri, before, signal);
      note("switch", first.problems);
      steps.push({ name: "switch", did: "this program was started and asked for all of them" });
      const result = await makeNew(cri, { directory, image: node.pauseImage, adopted: pods[0] }, signal);
      note("new", result.problems);
      steps.push({ name: "new", did: result.did });
      const second = await checkAnswers(pods, cri, before, signal);
      note("after", second.problems);
      note("after", compareStatuses(first.statuses, second.statuses));
      note("after", changed(before, await snapshots(engine, ids, signal)));
      steps.push({ name: "after", did: "their statuses and processes were compared with those before" });
      return { made: result, statuses: second.statuses };
    });

    note("back", await checkByLegacyRules([...ids, ...made.ids], engine, signal));
    note("back", await checkCheckpoints(checkpointsOf(parts), expectedCheckpoints(pods, made, node)));
    if (parts.startOther !== undefined) note("back", await askOther(parts, pods, statuses, signal));
    const rules = "names, labels and checkpoints were read by the rules of dockershim and cri-dockerd";
    const asked = "; cri-dockerd was asked for the statuses of the recorded pods";
    steps.push({ name: "back", did: `${rules}${parts.startOther === undefined ? "" : asked}` });
  } finally {
    await removeMade(engine, directory, AbortSignal.timeout(cleanUpMs));
  }
  const left = await engine.listContainers({ labelKey: rehearsalLabel, labelValue: directory }, signal);
  note(
    "remove",
    left.map(({ id }) => ({ subject: `container ${id}`, text: "is still there" })),
  );
  steps.push({ name: "remove", did: "everything that was made is removed" });
  const containers = pods.reduce((sum, pod) => sum + pod.containers.length, 0);
  return {
    recording,
    as: node.program,
    pods: pods.length,
    containers,
    notes: notesOf(recorded, node),
    steps,
    findings,
  };
}

async function refuseOtherPods(engine: ContainerCalls, signal: AbortSignal): Promise<void> {
  const listed = await engine.listContainers({ labelKey: typeLabel, labelValue: sandboxType }, signal);
  if (listed.length === 0) return;
  throw new ShimError(
    "precondition",
    `rehearse on this host: its engine has ${listed.length} pods; use a scratch host, or --anyway`,
  );
}

type Note = (step: StepName, found: readonly Omit<Finding, "step">[]) => void;

async function makePods(parts: RehearsalParts, note: Note, signal: AbortSignal): Promise<readonly MadePod[]> {
  const { recorded, engine, node, directory } = parts;
  const checkpoints = checkpointsOf(parts);
  await mkdir(checkpoints, { recursive: true, mode: 0o700 });
  const pods: MadePod[] = [];
  for (const pod of recorded.pods) {
    try {
      pods.push(await makePod(pod, { engine, node, directory, checkpoints }, signal));
    } catch (error) {
      signal.throwIfAborted();
      note("make", [{ subject: podSubject({ recorded: pod }), text: messageOf(error) }]);
    }
  }
  return pods;
}

async function withProgram<T>(
  parts: RehearsalParts,
  signal: AbortSignal,
  work: (cri: CriConnection) => Promise<T>,
): Promise<T> {
  const server = await parts.startProgram(signal);
  try {
    const cri = await connectToServer(server.endpoint, signal);
    try {
      return await work(cri);
    } finally {
      cri.close();
    }
  } finally {
    await server.stop();
  }
}

/** Whether a real cri-dockerd lists the pods as ready, and says the same of them as this program. */
async function askOther(
  parts: RehearsalParts,
  pods: readonly MadePod[],
  ours: Statuses,
  signal: AbortSignal,
): Promise<readonly Omit<Finding, "step">[]> {
  const server = await parts.startOther?.(signal);
  if (server === undefined) return [];
  try {
    const cri = await connectToServer(server.endpoint, signal);
    try {
      const { items } = await cri.call("ListPodSandbox", { filter: { state: { state: 0 } } }, { signal });
      const ready = new Set(items.map(({ id }) => id));
      const missing = pods
        .filter(({ id }) => !ready.has(id))
        .map((pod) => ({ subject: podSubject(pod), text: "cri-dockerd does not list it as ready" }));
      const servers = { left: "dockershim", right: "cri-dockerd" } as const;
      return [...missing, ...compareStatuses(ours, await readStatuses(pods, cri, signal), servers)];
    } finally {
      cri.close();
    }
  } finally {
    await server.stop();
  }
}

function checkpointsOf({ directory }: RehearsalParts): string {
  return join(directory, "state", "sandbox");
}

function expectedCheckpoints(
  pods: readonly MadePod[],
  { sandbox }: NewResult,
  node: LegacyNode,
): Parameters<typeof checkCheckpoints>[1] {
  const recorded = pods.map((pod) => {
    const { namespace = "", name = "" } = pod.recorded.config.metadata ?? {};
    return { id: pod.id, subject: podSubject(pod), namespace, name, flavour: flavourOf(node) };
  });
  if (sandbox === undefined) return recorded;
  const { id, namespace, name } = sandbox;
  const subject = `pod ${namespace}/${name}`;
  return [...recorded, { id, subject, namespace, name, flavour: "dockershim" }];
}

async function snapshots(
  engine: ContainerCalls,
  ids: readonly string[],
  signal: AbortSignal,
): Promise<ReadonlyMap<string, Snapshot>> {
  const found = new Map<string, Snapshot>();
  for (const id of ids) {
    const snapshot = await engine.inspectContainer(id, signal);
    if (snapshot !== undefined) found.set(id, snapshot);
  }
  return found;
}

/** What the engine itself says: start, process and state of each container. */
function changed(
  before: ReadonlyMap<string, Snapshot>,
  after: ReadonlyMap<string, Snapshot>,
): readonly Omit<Finding, "step">[] {
  return [...before].flatMap(([id, { name, state }]) => {
    const now = after.get(id)?.state;
    const isSame = now?.started === state.started && now.pid === state.pid && now.status === state.status;
    return isSame ? [] : [{ subject: `container ${name}`, text: "it was started again, ended or removed" }];
  });
}

function notesOf({ unmade }: RecordedPods, { program }: LegacyNode): readonly string[] {
  return [
    "Containers run the pause image, not their own images and commands.",
    "Host paths, devices, CPU sets, OOM scores, cgroup parents, AppArmor and SELinux options were left out.",
    "Pods have Docker's own network (no-op). Host ports were opened on this host.",
    "Logs, and the removal of pods by the other runtime, were not rehearsed.",
    ...(program === "cri-dockerd"
      ? [
          `Before the way back, checkpoints of new pods are to be converted: ${convertCheckpoints("cri-dockerd")}`,
        ]
      : []),
    ...(unmade > 0
      ? [
          `${unmade} pods were there before the recording, and are not in it: record while the kubelet makes them.`,
        ]
      : []),
  ];
}
