/** What the engine says: its facts, its containers sorted into pods, and its images. GET requests only. */
import {
  containerNameLabel,
  hasPodType,
  isMadeHere,
  logPathLabel,
  mayInheritPodType,
  sandboxIdLabel,
  sandboxType,
  typeLabel,
} from "../../domain/labels.js";
import { withDeadline } from "../../lib/abort.js";
import { ShimError } from "../../lib/errors.js";
import { parseName } from "../../domain/names.js";
import { type ListedContainer, listedName, type ListedImage, type Snapshot } from "../../domain/snapshot.js";
import type { Engine } from "../../shim/ports/engine.js";
import type { CheckpointFact, ContainerFact, EngineFacts, NetworkFacts, PodFact } from "../facts/facts.js";
import type { NodeFiles } from "../files/node-files.js";
import type { PodRecordFact } from "./read-network.js";

/** Inspects under way at one time. */
const inspectsAtOnce = 8;
const defaultInspectMs = 10_000;
const helperContainer = /^dockershim-(scratch|image)-/;

export interface EngineSources {
  readonly endpoint: string;
  readonly engine: Pick<Engine, "connect" | "listContainers" | "inspectContainer" | "listImages">;
  readonly files: NodeFiles;
  readonly checkpoints: readonly CheckpointFact[];
  readonly records: ReadonlyMap<string, PodRecordFact>;
  readonly limits: ReadonlySet<string>;
  readonly network: NetworkFacts;
  /** For each container; for tests. */
  readonly inspectMs?: number | undefined;
}

export async function readEngine(sources: EngineSources, signal: AbortSignal): Promise<EngineFacts> {
  const { endpoint, engine } = sources;
  const facts = await engine.connect(signal);
  const listed = await engine.listContainers({}, signal);
  const containers: ContainerFact[] = [];
  for (let start = 0; start < listed.length; start += inspectsAtOnce) {
    const batch = listed.slice(start, start + inspectsAtOnce);
    const answers = await Promise.all(batch.map((one) => inspect(sources, one, signal)));
    const failed = answers.filter((answer) => answer instanceof ShimError);
    // More than single containers.
    if (failed[0] !== undefined && failed.length === inspectsAtOnce) throw failed[0];
    for (const [index, answer] of answers.entries()) {
      const one = batch[index];
      // Else removed since it was listed.
      if (answer !== undefined && one !== undefined) containers.push(await toContainer(sources, one, answer));
    }
  }
  const images = await engine.listImages(signal);
  return { endpoint, facts, ...sortContainers(sources, containers), localImages: localImages(images) };
}

/** An error in place of an answer: a container that hangs must not hide the others. */
async function inspect(
  { engine, inspectMs = defaultInspectMs }: EngineSources,
  { id }: ListedContainer,
  signal: AbortSignal,
): Promise<Snapshot | ShimError | undefined> {
  try {
    return await withDeadline(signal, inspectMs, "inspect", (limited) =>
      engine.inspectContainer(id, limited),
    );
  } catch (error) {
    signal.throwIfAborted();
    return ShimError.from(error);
  }
}

/** An error in place of the inspect: what the list has of it. */
async function toContainer(
  { files, limits }: EngineSources,
  listed: ListedContainer,
  answer: Snapshot | ShimError,
): Promise<ContainerFact> {
  const isInspected = !(answer instanceof ShimError);
  const { id, labels } = isInspected ? answer : listed;
  const ofAnswer = isInspected
    ? {
        name: answer.name,
        image: answer.imageName,
        isRunning: answer.state.running,
        mounts: answer.mounts.map(({ source }) => source),
      }
    : {
        ...{ name: listedName(listed) || id, image: listed.imageName, mounts: [] },
        isRunning: listed.status === "running",
      };
  const { logDriver, runtime, networkMode, privileged } = isInspected ? answer : notInspected;
  return {
    ...{ id, labels, ...ofAnswer, logDriver, runtime, networkMode, privileged },
    notInspected: isInspected ? undefined : answer.message,
    isMadeHere: isMadeHere(labels),
    log: await logAt(files, labels[logPathLabel] ?? ""),
    hasLimitsRecord: limits.has(id),
  };
}

const notInspected = { logDriver: "", runtime: "", networkMode: "", privileged: false };

async function logAt(files: NodeFiles, path: string): Promise<ContainerFact["log"]> {
  if (!path.startsWith("/")) return "none";
  const kind = await files.kindOf(path);
  if (kind === "absent") return "missing";
  return kind === "link" || kind === "file" ? kind : "none";
}

type Sorted = Pick<EngineFacts, "pods" | "foreign" | "outside">;

function sortContainers(sources: EngineSources, containers: readonly ContainerFact[]): Sorted {
  const pods = new Map<string, PodFact>();
  const foreign: ContainerFact[] = [];
  const outside: ContainerFact[] = [];
  const isOfPod = (container: ContainerFact): boolean =>
    hasPodType(container.labels) && !mayInheritPodType(container);
  for (const container of containers) {
    if (!isOfPod(container)) {
      if (!helperContainer.test(container.name)) outside.push(container);
      continue;
    }
    if (parseName(container.name) === undefined) foreign.push(container);
    else if (container.labels[typeLabel] === sandboxType)
      pods.set(container.id, toPod(sources, container.id, container));
  }
  for (const container of containers) {
    const sandboxId = container.labels[sandboxIdLabel] ?? "";
    if (!isOfPod(container) || container.labels[typeLabel] === sandboxType) continue;
    if (parseName(container.name) === undefined) continue;
    const pod = pods.get(sandboxId) ?? toPod(sources, sandboxId, undefined, container);
    pods.set(sandboxId, { ...pod, containers: [...pod.containers, container] });
  }
  const order = (pod: PodFact): string => `${pod.namespace}/${pod.name}/${pod.uid}/${pod.attempt}`;
  const sorted = [...pods.values()].sort((a, b) => (order(a) < order(b) ? -1 : 1));
  return { pods: sorted, foreign, outside };
}

function toPod(
  { checkpoints, records, network }: EngineSources,
  sandboxId: string,
  sandbox: ContainerFact | undefined,
  container = sandbox,
): PodFact {
  const parsed = parseName(container?.name ?? "");
  return {
    sandboxId,
    namespace: parsed?.pod.namespace ?? "",
    name: parsed?.pod.name ?? "",
    uid: parsed?.pod.uid ?? "",
    attempt: sandbox === undefined ? 0 : (parsed?.attempt ?? 0),
    sandbox,
    containers: [],
    checkpoints: checkpoints.filter((checkpoint) => checkpoint.sandboxId === sandboxId),
    record: records.get(sandboxId),
    isCached: network.cached.has(sandboxId),
  };
}

/** Names by which people know the container of a pod, or Docker's name. */
export function shownName(container: ContainerFact): string {
  return container.labels[containerNameLabel] ?? container.name;
}

function localImages(images: readonly ListedImage[]): EngineFacts["localImages"] {
  return images
    .filter(({ hasRegistry, repoTags }) => !hasRegistry && repoTags.length > 0)
    .map(({ id, repoTags }) => ({ id, names: repoTags }))
    .sort((a, b) => ((a.names[0] ?? "") < (b.names[0] ?? "") ? -1 : 1));
}
