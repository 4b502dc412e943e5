/** Pods by name, as any CRI server shows them. */
import { isKind, ShimError } from "../../lib/errors.js";
import { shownText } from "../../lib/shown-text.js";
import { ContainerState, type ContainerStatus, type PodSandbox, PodSandboxState } from "../../domain/cri.js";
import type { CriClient } from "../cri/client.js";
import { playHashAnnotation } from "../pod-config/cri-config.js";

export interface PodName {
  readonly namespace: string;
  readonly name: string;
}

export interface FoundPod extends PodName {
  /** The newest one. */
  readonly sandbox: PodSandbox;
  readonly isReady: boolean;
  /** Whether play made it. */
  readonly isPlayed: boolean;
  /** All attempts, in the order of their creation. */
  readonly containers: readonly ContainerStatus[];
}

type Reads = Pick<CriClient, "listPodSandboxes" | "listContainers" | "containerStatus">;

/** `NAME` or `NAMESPACE/NAME`; `namespace` is that of a flag. Throws `invalid`. */
export function parsePodName(text: string, namespace: string | undefined): PodName {
  const parts = text.split("/");
  const [first = "", second] = parts;
  const name = second ?? first;
  const given = second === undefined ? undefined : first;
  if (parts.length > 2 || name === "" || given === "")
    throw new ShimError("invalid", `pod ${JSON.stringify(text)}: write NAME or NAMESPACE/NAME`);
  if (given !== undefined && namespace !== undefined && given !== namespace)
    throw new ShimError("invalid", `pod ${JSON.stringify(text)}: --namespace names another namespace`);
  return { namespace: given ?? namespace ?? "default", name };
}

/** Rejects with `notFound`, naming what may have been meant. */
export async function findPod(
  client: Reads,
  { namespace, name }: PodName,
  signal: AbortSignal,
): Promise<FoundPod> {
  // By their metadata: pods of crictl have no labels.
  const others = (await client.listPodSandboxes({}, signal)).filter(
    ({ metadata }) => metadata?.name === name,
  );
  const [sandbox] = newestFirst(others.filter(({ metadata }) => metadata?.namespace === namespace));
  if (sandbox !== undefined) return inspect(client, sandbox, signal);
  const namespaces = [...new Set(others.map(({ metadata }) => metadata?.namespace ?? ""))];
  const hint =
    namespaces.length === 0 ? 'see "dockershim pod ps"' : `it is in ${shownText(namespaces.join(", "))}`;
  throw new ShimError("notFound", `pod "${namespace}/${name}": not found; ${hint}`);
}

/** In the order of their names. `namespace`: of all namespaces when undefined. */
export async function findPods(
  client: Reads,
  namespace: string | undefined,
  signal: AbortSignal,
): Promise<readonly FoundPod[]> {
  const byName = new Map<string, PodSandbox>();
  for (const sandbox of newestFirst(await client.listPodSandboxes({}, signal))) {
    if (namespace !== undefined && sandbox.metadata?.namespace !== namespace) continue;
    const key = JSON.stringify([sandbox.metadata?.namespace, sandbox.metadata?.name]);
    if (!byName.has(key)) byName.set(key, sandbox);
  }
  const pods = await Promise.all([...byName.values()].map((sandbox) => inspect(client, sandbox, signal)));
  const order = ({ namespace: of, name }: PodName): string => `${of}\0${name}`;
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
    listed.map(async ({ id }) => {
      try {
        return await client.containerStatus(id, signal);
      } catch (error) {
        if (isKind(error, "notFound")) return undefined; // Removed since it was listed.
        throw error;
      }
    }),
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

/**
 * Those that are not init containers, as far as the CRI shows: a container that ended with 0 before another one
 * was created has done the work of an init container.
 */
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

/**
 * The container of that name; without one the pod's default, else `first`, as its manifest names it, else the
 * first that the CRI does not show as an init container. Throws `notFound`.
 */
export function chooseContainer(
  pod: FoundPod,
  name: string | undefined,
  first: string | undefined,
): ContainerStatus {
  const all = newestAttempts(pod);
  const wanted = name ?? pod.sandbox.annotations[defaultContainer] ?? first;
  const chosen =
    wanted === undefined ? mainContainers(pod)[0] : all.find((status) => containerName(status) === wanted);
  if (chosen !== undefined) return chosen;
  const names = all.map((status) => shownText(containerName(status))).join(", ") || "none";
  const what =
    wanted === undefined
      ? "it has no containers"
      : name === undefined && wanted === first
        ? `container "${shownText(wanted)}" was not created yet; it has: ${names}`
        : `no container "${shownText(wanted)}"; it has: ${names}`;
  throw new ShimError("notFound", `pod "${pod.namespace}/${pod.name}": ${what}`);
}
