/** Stops containers and pods in the kubelet's way: preStop hooks, grace periods, sidecars last. */
import { linkAbort, orAbort } from "../../lib/abort.js";
import { isKind, messageOf } from "../../lib/errors.js";
import type { Container, PodSpec } from "../manifests/pod-schema.js";
import type { Clock } from "./clock.js";
import type { PodAccess, PodEvents } from "./kubelet-deps.js";
import { defaultGraceSeconds } from "../pod-config/cri-config.js";
import type { ObservedContainer, ObservedPod } from "../pod-rules/observed-pod.js";
import { type KillReason, isSidecar } from "../pod-rules/restart-rules.js";

/** The pod whose containers are killed. */
export interface KilledPod {
  /** Undefined when nothing is known about it but what the CRI shows. */
  readonly spec: PodSpec | undefined;
  readonly podIp: string;
}

/** Each container gets these, whatever its grace period is. */
const minimumGraceSeconds = 2;

/** Reason of the event with which the end of a container begins. */
export const killing = "Killing";

interface KillOptions {
  readonly reason: KillReason;
  readonly message: string;
  /** In place of the pod's. */
  readonly graceSeconds?: number | undefined;
  /** Resolves when the container may be stopped. */
  readonly turn?: Promise<void> | undefined;
}

/** preStop and the wait for its turn shorten the time that the container gets to end. */
export async function killContainer(
  entry: Pick<ObservedContainer, "id" | "name" | "graceSeconds">,
  { spec, podIp }: KilledPod,
  { reason, message, graceSeconds, turn }: KillOptions,
  deps: PodAccess & PodEvents,
  signal: AbortSignal,
): Promise<void> {
  const container = spec === undefined ? undefined : containerOf(spec, entry.name);
  let grace = graceSeconds ?? gracePeriod(entry, spec, container, reason);
  deps.event("Normal", killing, message, entry.name);
  const startedAt = deps.clock.now();
  const startedUptime = deps.clock.uptime();
  const left = (): number => grace - Math.floor((deps.clock.uptime() - startedUptime) / 1000);
  const hook = container?.lifecycle?.preStop;
  if (container !== undefined && hook !== undefined && grace > 0) {
    const target = { containerId: entry.id, container, podIp };
    await within(grace * 1000, deps.clock, signal, async (limit) => {
      try {
        await deps.handlers.runHook(hook, target, limit);
        deps.event("Normal", "PreStopHook", `Ran preStop hook of ${entry.name}`, entry.name, startedAt);
      } catch (error) {
        if (limit.aborted) return;
        const failure = `PreStopHook failed: ${messageOf(error)}`;
        deps.event("Warning", "FailedPreStopHook", failure, entry.name, startedAt);
      }
    });
  }
  if (turn !== undefined && left() > 0) await within(left() * 1000, deps.clock, signal, () => turn);
  grace = Math.max(minimumGraceSeconds, left());
  await ignoreMissing(deps.client.stopContainer(entry.id, grace, signal));
}

/** Stops all running containers in parallel, sidecars after the others in reverse order, and all sandboxes. */
export async function killPod(
  observed: ObservedPod,
  pod: KilledPod,
  deps: PodAccess & PodEvents,
  signal: AbortSignal,
  options: { readonly graceSeconds?: number | undefined } = {},
): Promise<void> {
  const running = observed.containers.filter(({ state }) => state === "running" || state === "unknown");
  const order = new TerminationOrder(
    pod.spec,
    running.map(({ name }) => name),
  );
  await all(
    running.map(async (entry) => {
      const message = `Stopping container ${entry.name}`;
      const turn = order.turnOf(entry.name);
      const how = { reason: "other", message, turn, graceSeconds: options.graceSeconds } as const;
      await killContainer(entry, pod, how, deps, signal);
      order.ended(entry.name);
    }),
  );
  for (const { id } of observed.sandboxes) await ignoreMissing(deps.client.stopPodSandbox(id, signal));
}

/** A sidecar ends after all regular containers and after the sidecars that follow it. */
class TerminationOrder {
  readonly #ends = new Map<string, { readonly promise: Promise<void>; readonly resolve: () => void }>();
  readonly #turns = new Map<string, Promise<void>>();

  constructor(spec: PodSpec | undefined, running: readonly string[]) {
    for (const name of running) {
      let resolve!: () => void;
      const promise = new Promise<void>((settle) => (resolve = settle));
      this.#ends.set(name, { promise, resolve });
    }
    const endOf = (name: string): Promise<void> => this.#ends.get(name)?.promise ?? Promise.resolve();
    const before = (spec?.containers ?? []).map(({ name }) => endOf(name));
    for (const { name } of (spec?.initContainers ?? []).filter(isSidecar).reverse()) {
      this.#turns.set(
        name,
        Promise.all(before).then(() => undefined),
      );
      before.push(endOf(name));
    }
  }

  turnOf(name: string): Promise<void> | undefined {
    return this.#turns.get(name);
  }

  ended(name: string): void {
    this.#ends.get(name)?.resolve();
  }
}

function gracePeriod(
  entry: Pick<ObservedContainer, "graceSeconds">,
  spec: PodSpec | undefined,
  container: Container | undefined,
  reason: KillReason,
): number {
  const fromPod = spec === undefined ? entry.graceSeconds : spec.terminationGracePeriodSeconds;
  const own = fromPod ?? defaultGraceSeconds;
  if (reason === "startupProbe") return container?.startupProbe?.terminationGracePeriodSeconds ?? own;
  if (reason === "livenessProbe") return container?.livenessProbe?.terminationGracePeriodSeconds ?? own;
  return own;
}

function containerOf(spec: PodSpec, name: string): Container | undefined {
  const all: readonly Container[] = [
    ...spec.containers,
    ...(spec.initContainers ?? []),
    ...(spec.ephemeralContainers ?? []),
  ];
  return all.find((container) => container.name === name);
}

/** Waits for all, also after a failure, so that nothing goes on in the background. */
async function all(work: readonly Promise<void>[]): Promise<void> {
  const failed = (await Promise.allSettled(work)).find((result) => result.status === "rejected");
  if (failed !== undefined) throw failed.reason;
}

export async function ignoreMissing(call: Promise<void>): Promise<void> {
  try {
    await call;
  } catch (error) {
    if (!isKind(error, "notFound")) throw error;
  }
}

/** Ends the wait for `work`, and aborts it, after that time. */
async function within(
  milliseconds: number,
  clock: Clock,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const limit = new AbortController();
  let cancel = (): void => undefined;
  const passed = new Promise<void>((resolve) => {
    cancel = clock.after(milliseconds, () => {
      limit.abort();
      resolve();
    });
  });
  using _ = linkAbort(signal, () => limit.abort(signal.reason));
  try {
    await orAbort(Promise.race([passed, work(limit.signal)]), signal);
  } finally {
    cancel();
  }
}
