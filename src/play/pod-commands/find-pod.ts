/** Pods by name, as any CRI server shows them. */
import { ShimError, unlessKind } from "../../lib/errors.js";
import { shownText } from "../../lib/shown-text.js";
import { ContainerState, type ContainerStatus, type PodSandbox, PodSandboxState } from "../../domain/cri.js";
import type { CriClient } from "../cri/client.js";
import type { ObjectKey } from "../manifests/workloads.js";
import { jobNameLabel, playHashAnnotation, playOwnerAnnotation } from "../pod-config/cri-config.js";
import { hasLabels, kindHint, type PodName, type PodSelection } from "./pod-names.js";

export interface FoundPod extends ObjectKey {
  /** The newest one. */
  readonly sandbox: PodSandbox;
  readonly isReady: boolean;
  /** Whether play made it. */
  readonly isPlayed: boolean;
  /** All attempts, in the order of their creation. */
  readonly containers: readonly ContainerStatus[];
}

type Reads = Pick<CriClient, "listPodSandboxes" | "listContainers" | "containerStatus">;

/** Rejects with `notFound`. Of a workload the first pod that is ready; `report` gets a line that says so. */
export async function findPod(
  client: Reads,
  name: PodName,
  signal: AbortSignal,
  report?: (line: string) => void,
): Promise<FoundPod> {
  const found = await findNamed(client, name, signal);
  const [pod] = [...found.filter(({ isReady }) => isReady), ...found];
  if (pod === undefined) throw new ShimError("internal", "no pod was found");
  if (found.length > 1) report?.(`Found ${found.length} pods, using pod/${shownText(pod.name)}`);
  return pod;
}

/** In the order of their names. Rejects as `findPod`; with none that has the labels, the list is empty. */
export async function findPods(
  client: Reads,
  { pods, namespace, labels }: PodSelection,
  signal: AbortSignal,
): Promise<readonly FoundPod[]> {
  const found = [];
  for (const name of pods) found.push(...(await findNamed(client, name, signal)));
  if (pods.length > 0) return found;
  const isWanted = ({ metadata, labels: own }: PodSandbox): boolean =>
    (namespace === undefined || metadata?.namespace === namespace) && hasLabels(own, labels);
  return inspectAll(client, (await client.listPodSandboxes({}, signal)).filter(isWanted), signal);
}

/** Never empty. */
async function findNamed(
  client: Reads,
  { namespace, name, kind, labels }: PodName,
  signal: AbortSignal,
): Promise<readonly FoundPod[]> {
  // By their metadata: pods of crictl have no labels.
  const isMeant = ({ metadata, annotations, labels: own }: PodSandbox): boolean => {
    if (labels !== undefined) return metadata?.namespace === namespace && hasLabels(own, labels);
    if (kind === undefined) return metadata?.name === name;
    const owner = annotations[playOwnerAnnotation];
    const isOfCronJob = kind === "Job" && owner?.startsWith("CronJob/") === true;
    return owner === `${kind}/${name}` || (isOfCronJob && own[jobNameLabel] === name);
  };
  const others = (await client.listPodSandboxes({}, signal)).filter(isMeant);
  const own = others.filter(({ metadata }) => metadata?.namespace === namespace);
  if (own.length > 0) return inspectAll(client, own, signal);
  const namespaces = [...new Set(others.map(({ metadata }) => metadata?.namespace ?? ""))];
  const hint =
    namespaces.length > 0
      ? `it is in ${shownText(namespaces.join(", "))}`
      : ((kind === undefined ? kindHint(name) : undefined) ?? 'see "dockershim pod ps"');
  throw new ShimError(
    "notFound",
    kind === undefined
      ? `pod "${namespace}/${name}": not found; ${hint}`
      : `${kind} "${namespace}/${name}": play has made no pod of it; ${hint}`,
  );
}

async function inspectAll(
  client: Reads,
  sandboxes: readonly PodSandbox[],
  signal: AbortSignal,
): Promise<readonly FoundPod[]> {
  const byName = new Map<string, PodSandbox>();
  for (const sandbox of newestFirst(sandboxes)) {
    const key = JSON.stringify([sandbox.metadata?.namespace, sandbox.metadata?.name]);
    if (!byName.has(key)) byName.set(key, sandbox);
  }
  const pods = await Promise.all([...byName.values()].map((sandbox) => inspect(client, sandbox, signal)));
  const order = ({ namespace: of, name }: FoundPod): string => `${of}\0${name}`;
  return pods.sort((left, right) => (order(left) < order(right) ? -1 : 1));
}

function newestFirst(sandboxes: readonly PodSandbox[]): readonly PodSandbox[] {
  return [...sandboxes].sort((left, right) => {
    const age = BigInt(right.created_at) - BigInt(left.created_at);
    return age === 0n ? 0 : age > 0n ? 1 : -1;
  });
}

async function inspect(client: Reads, sandbox: PodSandbox, signal: AbortSignal): Promise<FoundPod> {
  const listed = await client.listContainers(sandbox.id, signal);
  const statuses = await Promise.all(
    // It may be removed since it was listed.
    listed.map(({ id }) => client.containerStatus(id, signal).catch(unlessKind("notFound"))),
  );
  return {
    namespace: sandbox.metadata?.namespace ?? "",
    name: sandbox.metadata?.name ?? "",
    sandbox,
    isReady: sandbox.state === PodSandboxState.SANDBOX_READY,
    isPlayed: sandbox.annotations[playHashAnnotation] !== undefined,
    containers: statuses.filter((status) => status !== undefined).sort(byCreation),
  };
}

function byCreation(left: ContainerStatus, right: ContainerStatus): number {
  const age = BigInt(left.created_at) - BigInt(right.created_at);
  return age === 0n ? 0 : age > 0n ? 1 : -1;
}

export function containerName({ metadata }: ContainerStatus): string {
  return metadata?.name ?? "";
}

/** The newest attempt of each container, in the order in which the names were first seen. */
export function newestAttempts({ containers }: Pick<FoundPod, "containers">): readonly ContainerStatus[] {
  const newest = new Map<string, ContainerStatus>();
  for (const status of containers) newest.set(containerName(status), status);
  return [...newest.values()];
}

/** Without init containers: those that ended with 0 before another one was created. */
export function mainContainers(pod: Pick<FoundPod, "containers">): readonly ContainerStatus[] {
  const all = newestAttempts(pod);
  const main = all.filter(
    (status, index) =>
      status.state !== ContainerState.CONTAINER_EXITED ||
      status.exit_code !== 0 ||
      !all.slice(index + 1).some((later) => BigInt(later.created_at) > BigInt(status.finished_at)),
  );
  return main.length === 0 ? all : main;
}

/** An annotation that kubectl reads. */
const defaultContainer = "kubectl.kubernetes.io/default-container";

/** What the manifest names, in its order; undefined where it is not known. */
interface KnownContainers {
  readonly containers: readonly { readonly name: string }[];
  readonly initContainers?: readonly { readonly name: string }[] | undefined;
}

/** That of the name, else the default, else the first one; `notice` says which. Throws `notFound`. */
export function chooseContainer(
  pod: FoundPod,
  name: string | undefined,
  known: KnownContainers | undefined,
): { readonly status: ContainerStatus; readonly notice?: string } {
  const all = newestAttempts(pod);
  const first = known?.containers[0]?.name;
  const given = name ?? pod.sandbox.annotations[defaultContainer];
  const wanted = given ?? first;
  const chosen =
    wanted === undefined ? mainContainers(pod)[0] : all.find((status) => containerName(status) === wanted);
  if (chosen !== undefined) {
    const names = known === undefined ? seenNames(pod) : namesOf(known);
    const isDefaulted = given === undefined && names.length > 1;
    const taken = JSON.stringify(shownText(containerName(chosen)));
    const notice = `Defaulted container ${taken} out of: ${names.map(shownText).join(", ")}`;
    return { status: chosen, ...(isDefaulted ? { notice } : {}) };
  }
  const names = all.map((status) => shownText(containerName(status))).join(", ") || "none";
  const what =
    wanted === undefined
      ? "it has no containers"
      : given === undefined
        ? `container "${shownText(wanted)}" was not created yet; it has: ${names}`
        : `no container "${shownText(wanted)}"; it has: ${names}`;
  throw new ShimError("notFound", `pod "${pod.namespace}/${pod.name}": ${what}`);
}

function namesOf({ containers, initContainers = [] }: KnownContainers): readonly string[] {
  return [...containers.map(({ name }) => name), ...initContainers.map(({ name }) => `${name} (init)`)];
}

/** The same of what the CRI shows. */
function seenNames(pod: FoundPod): readonly string[] {
  const main = mainContainers(pod);
  const init = newestAttempts(pod).filter((status) => !main.includes(status));
  return namesOf({
    containers: main.map((status) => ({ name: containerName(status) })),
    initContainers: init.map((status) => ({ name: containerName(status) })),
  });
}
