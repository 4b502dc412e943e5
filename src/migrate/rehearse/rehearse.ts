/** The rehearsal on a scratch host: recorded pods are made, taken over by this program, and given back. */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { type CriConnection, connectToServer } from "../../client/cri-connection.js";
import { type ServerKind, serverKinds } from "../../compare/answers/server-kind.js";
import { sandboxType, typeLabel } from "../../domain/labels.js";
import type { Snapshot } from "../../domain/snapshot.js";
import { messageOf, ShimError } from "../../lib/errors.js";
import type { ContainerCalls } from "../../shim/ports/engine.js";
import { convertFiles } from "../../../checkpoints/convert-files.js";
import { convertCheckpoints } from "../judge/way-back.js";
import { checkAnswers, checkByLegacyRules, checkCheckpoints } from "./check-pods.js";
import type { LegacyNode } from "./legacy-bodies.js";
import { makeNew, type NewResult } from "./new-pods.js";
import type { PodNetworks } from "./pod-networks.js";
import { compareRecorded, type RecordedComparison } from "./recorded-answers.js";
import type { RecordedPods } from "./recorded-pods.js";
import { type Relisting, whileRelisting } from "./relist.js";
import { findLeft, removePods } from "./remove-pods.js";
import {
  flavourOf,
  makePod,
  type MadePod,
  podSubject,
  rehearsalLabel,
  removeMade,
  sandboxesOf,
} from "./scratch-pods.js";
import { compareStatuses, readStatuses, type Statuses } from "./statuses.js";
import type { Finding, Problem, StepName, Verdict } from "./verdict.js";

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
  /** Directory of the checkpoints of the imitated runtime. */
  readonly checkpoints: string;
  /** Directory of cri-dockerd's, into which those of this program are converted for the way back. */
  readonly criDockerdCheckpoints: string;
  /** Undefined: pods have Docker's own network. */
  readonly networks?: PodNetworks | undefined;
  /** What the caller did in another way than the node. */
  readonly notes: readonly string[];
  /** Although the engine has pods. */
  readonly anyway: boolean;
  /** Starts this program with the state directory `<directory>/state`; returns when it serves. */
  startProgram(signal: AbortSignal): Promise<RunningServer>;
  /** Starts a real cri-dockerd, where one is given. */
  readonly startOther?: (signal: AbortSignal) => Promise<RunningServer>;
}

const cleanUpMs = 120_000;
const none: RecordedComparison = { compared: 0, ended: 0, problems: [] };

/** Removes everything that it made, whatever happens. Throws what made it impossible. */
export async function rehearse(parts: RehearsalParts, signal: AbortSignal): Promise<Verdict> {
  const { engine, directory, recorded, node, recording } = parts;
  if (!parts.anyway) await refuseOtherPods(engine, signal);
  const findings: Finding[] = [];
  const steps: { name: StepName; did: string }[] = [];
  const note = (step: StepName, found: readonly Problem[]): void => {
    findings.push(...found.map((one) => ({ step, ...one })));
  };
  let pods: readonly MadePod[] = [];
  let ended = 0;
  try {
    // So that the pause image is there.
    await withServer(await parts.startProgram(signal), signal, async (cri) => {
      await makeNew(cri, { directory, image: node.pauseImage, only: "pod" }, signal);
    });
    pods = await makePods(parts, note, signal);
    const containers = pods.flatMap((pod) => pod.containers);
    steps.push({ name: "make", did: `${pods.length} pods and ${containers.length} containers were made` });
    const ids = [...pods.map(({ id }) => id), ...containers.map(({ id }) => id)];
    const before = await snapshots(engine, ids, signal);

    const { made, statuses } = await withServer(await parts.startProgram(signal), signal, async (cri) => {
      const relisted = await whileRelisting(pods, cri, signal, async () => {
        const first = await checkAnswers(pods, cri, before, signal);
        note("switch", first.problems);
        const then = isComparable(recorded.server)
          ? compareRecorded(pods, first.statuses, recorded.server)
          : none;
        note("switch", then.problems);
        ended = then.ended;
        steps.push({
          name: "switch",
          did: `this program adopted all of them; ${then.compared} recorded answers were compared with its own`,
        });
        const result = await makeNew(cri, { directory, image: node.pauseImage, adopted: pods[0] }, signal);
        note("new", result.problems);
        steps.push({ name: "new", did: result.did });
        const second = await checkAnswers(pods, cri, before, signal);
        note("after", second.problems);
        note("after", compareStatuses(first.statuses, second.statuses));
        note("after", changed(before, await snapshots(engine, ids, signal)));
        return { made: result, statuses: second.statuses };
      });
      note("after", relisted.relisting.problems);
      steps.push({ name: "after", did: afterText(relisted.relisting) });
      return relisted.result;
    });

    note("back", await checkByLegacyRules([...ids, ...made.ids], engine, signal));
    note("back", await checkCheckpoints(parts.checkpoints, recordedCheckpoints(pods, node)));
    note("back", await checkCheckpoints(ownCheckpoints(parts), newCheckpoint(made)));
    const byOther = parts.startOther === undefined ? [] : pods.filter((_, number) => number % 2 === 1);
    const asked = await askOther(parts, { pods, byOther, made }, statuses, signal);
    note("back", asked.problems);
    steps.push({ name: "back", did: asked.did });

    // All that are left, also the pods of which only a part could be made.
    const rest = await sandboxesOf(engine, directory, signal);
    note(
      "remove",
      await withServer(await parts.startProgram(signal), signal, (cri) => removePods(cri, rest, signal)),
    );
    const directories = [ownCheckpoints(parts), parts.criDockerdCheckpoints];
    // cri-dockerd does not know the files of this program.
    const kept = asked.removed.map((id) => join(ownCheckpoints(parts), id));
    const looked = { directory, directories, kept, networks: parts.networks };
    note("remove", await findLeft(engine, looked, signal));
  } finally {
    await removeMade(engine, directory, AbortSignal.timeout(cleanUpMs));
  }
  const left = await engine.listContainers({ labelKey: rehearsalLabel, labelValue: directory }, signal);
  note(
    "remove",
    left.map(({ id }) => ({ subject: `container ${id}`, text: "is still there" })),
  );
  steps.push({ name: "remove", did: "all pods were stopped and removed, and what is left was looked for" });
  const containers = pods.reduce((sum, pod) => sum + pod.containers.length, 0);
  return {
    recording,
    as: node.program,
    pods: pods.length,
    containers,
    notes: [...parts.notes, ...notesOf(parts, containers, ended)],
    steps,
    findings,
  };
}

/** Pods are made as one of these makes them. */
function isComparable(server: ServerKind): boolean {
  return server === "cri-dockerd" || server === "kubelet-dockershim";
}

function afterText({ lists }: Relisting): string {
  return `their statuses and processes were compared with those before; ${lists} lists were read in the meantime`;
}

async function refuseOtherPods(engine: ContainerCalls, signal: AbortSignal): Promise<void> {
  const listed = await engine.listContainers({ labelKey: typeLabel, labelValue: sandboxType }, signal);
  if (listed.length === 0) return;
  throw new ShimError(
    "precondition",
    `rehearse on this host: its engine has ${listed.length} pods; use a scratch host, or --anyway`,
  );
}

type Note = (step: StepName, found: readonly Problem[]) => void;

async function makePods(parts: RehearsalParts, note: Note, signal: AbortSignal): Promise<readonly MadePod[]> {
  const { recorded, engine, node, directory, checkpoints, networks } = parts;
  await mkdir(checkpoints, { recursive: true, mode: 0o700 });
  const pods: MadePod[] = [];
  for (const pod of recorded.pods) {
    try {
      pods.push(await makePod(pod, { engine, node, directory, checkpoints, networks }, signal));
    } catch (error) {
      signal.throwIfAborted();
      note("make", [{ subject: podSubject({ recorded: pod }), text: messageOf(error) }]);
    }
  }
  return pods;
}

async function withServer<T>(
  server: RunningServer,
  signal: AbortSignal,
  work: (cri: CriConnection) => Promise<T>,
): Promise<T> {
  const cri = await connectToServer(server.endpoint, signal).catch(async (error: unknown) => {
    await server.stop();
    throw error;
  });
  try {
    return await work(cri);
  } finally {
    try {
      cri.close();
    } finally {
      await server.stop();
    }
  }
}

interface Returned {
  readonly pods: readonly MadePod[];
  /** Those of them that a real cri-dockerd removes. */
  readonly byOther: readonly MadePod[];
  readonly made: NewResult;
}

/** Whether a real cri-dockerd lists the pods as ready, says the same of them, and can remove them. */
async function askOther(
  parts: RehearsalParts,
  { pods, byOther, made }: Returned,
  ours: Statuses,
  signal: AbortSignal,
): Promise<{
  readonly did: string;
  readonly problems: readonly Problem[];
  /** Sandboxes. */
  readonly removed: readonly string[];
}> {
  const rules = "names, labels and checkpoints were read by the rules of dockershim and cri-dockerd";
  if (parts.startOther === undefined)
    return { did: `${rules}; neither of them was run`, problems: [], removed: [] };
  await convertFiles([ownCheckpoints(parts)], { to: "criDockerd", output: parts.criDockerdCheckpoints });
  return withServer(await parts.startOther(signal), signal, async (cri) => {
    const { items } = await cri.call("ListPodSandbox", { filter: { state: { state: 0 } } }, { signal });
    const ready = new Set(items.map(({ id }) => id));
    const missing = pods
      .filter(({ id }) => !ready.has(id))
      .map((pod) => ({ subject: podSubject(pod), text: "cri-dockerd does not list it as ready" }));
    const servers = { left: "dockershim", right: "cri-dockerd" } as const;
    const different = compareStatuses(ours, await readStatuses(pods, cri, signal), servers);
    const ids = [...byOther.map(({ id }) => id), ...(made.sandbox === undefined ? [] : [made.sandbox.id])];
    const failed = await removePods(cri, ids, signal);
    return {
      removed: ids,
      did: `${rules}; checkpoints were converted; cri-dockerd was asked for all pods, and removed ${ids.length}`,
      problems: [...missing, ...different, ...failed],
    };
  });
}

function ownCheckpoints({ directory }: RehearsalParts): string {
  return join(directory, "state", "sandbox");
}

type Expected = Parameters<typeof checkCheckpoints>[1];

function recordedCheckpoints(pods: readonly MadePod[], node: LegacyNode): Expected {
  return pods.map((pod) => {
    const { namespace = "", name = "" } = pod.recorded.config.metadata ?? {};
    return { id: pod.id, subject: podSubject(pod), namespace, name, flavour: flavourOf(node) };
  });
}

function newCheckpoint({ sandbox }: NewResult): Expected {
  if (sandbox === undefined) return [];
  const { id, namespace, name } = sandbox;
  return [{ id, subject: `pod ${namespace}/${name}`, namespace, name, flavour: "dockershim" }];
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
): readonly Problem[] {
  return [...before].flatMap(([id, { name, state }]) => {
    const now = after.get(id)?.state;
    const isSame = now?.started === state.started && now.pid === state.pid && now.status === state.status;
    return isSame ? [] : [{ subject: `container ${name}`, text: "it was started again, ended or removed" }];
  });
}

function notesOf(
  { recorded: { unmade, server }, node: { program }, networks, startOther }: RehearsalParts,
  containers: number,
  ended: number,
): readonly string[] {
  return [
    `${containers} containers ran the pause image in place of their own images and commands.`,
    "Host paths, devices, CPU sets, OOM scores, cgroup parents, AppArmor and SELinux options were left out.",
    ...(networks === undefined
      ? ["Pods had Docker's own network (no-op). Host ports were opened on this host."]
      : ["Network, caches and host ports were in namespaces of the rehearsal."]),
    ...(ended > 0
      ? [`${ended} containers had ended on the node. They ran here, and their answers were not compared.`]
      : []),
    ...(isComparable(server)
      ? []
      : [`The recorded answers are those of ${serverKinds[server]}, and were not compared.`]),
    ...(startOther === undefined
      ? ["The way back was not made: --cri-dockerd PATH runs a cri-dockerd. No dockershim was run."]
      : []),
    ...(program === "cri-dockerd" && startOther === undefined
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
