import type { Call } from "../../../lib/call.js";
import {
  type ContainerEventResponse,
  type Answer,
  type ContainerEventType,
  PodSandboxState,
} from "../../../domain/cri.js";
import type { Send } from "../../grpc/handlers.js";
import type { Services, ContainerEventSource, EventSubscription } from "../services.js";
import { orAbort, withDeadline } from "../../../lib/abort.js";
import { messageOf, ShimError } from "../../../lib/errors.js";
import { LruMap } from "../../../lib/lru-map.js";
import { type Nanoseconds, nowNanoseconds } from "../../../lib/time.js";
import { type Container, newestFirst } from "../../../domain/container.js";
import type { Sandbox } from "../../../domain/sandbox.js";
import { transitions } from "../../../domain/transitions.js";
import type { ModelChange } from "../../state/read-model.js";
import { describeContainer } from "../container/container-status.js";
import { describeSandbox } from "../sandbox/pod-sandbox-status.js";

/**
 * Sends all events from now on, until the client leaves; none for containers that exist already. `exhausted`
 * when the client is too slow: it has then missed events, and lists again.
 */
export async function getContainerEvents(
  _request: unknown,
  { state: { link }, events }: Services,
  call: Call,
  send: Send<Answer<ContainerEventResponse>>,
): Promise<void> {
  // Before the link is live, changes of the read model are containers that exist already.
  await link.live(call.signal);
  using subscription = events.subscribe();
  for (;;) await send(await subscription.next(call.signal));
}

type Event = Answer<ContainerEventResponse>;
type PodStatuses = Pick<Event, "pod_sandbox_status" | "containers_statuses">;

/** Limit of events that wait for one client, or for pods with pending containers. */
const queueLimit = 1000;
/** Limit of removed sandboxes whose containers may still have events. */
const goneSandboxesLimit = 1000;
/** Images and addresses are usually in memory. To read them must not delay later events for long. */
const describeTimeoutMs = 10_000;

interface Happening {
  readonly id: string;
  readonly type: ContainerEventType;
}

/**
 * Makes events from changes of the read model, while there are clients. Each event is described once, for all
 * clients, with the state of the pod at that moment.
 *
 * An event shows all containers of its pod. A kubelet takes a missing container for removed, so the events of
 * a pod wait until all its containers were inspected.
 */
export class ContainerEvents implements ContainerEventSource {
  readonly #queues = new Set<EventQueue<Event>>();
  readonly #waiting = new Map<string, Happening[]>();
  readonly #goneSandboxes = new LruMap<string, Sandbox>(goneSandboxesLimit);
  #ignoreModel: () => void = () => undefined;
  #latest: Nanoseconds = 0n;

  constructor(private readonly services: Omit<Services, "events">) {}

  timestamp(): Nanoseconds {
    const now = nowNanoseconds();
    this.#latest = now > this.#latest ? now : this.#latest + 1n;
    return this.#latest;
  }

  subscribe(): EventSubscription {
    const queue = new EventQueue<Event>(queueLimit);
    if (this.#queues.size === 0) {
      this.#ignoreModel = this.services.state.model.onChange((change) => this.#hear(change));
    }
    this.#queues.add(queue);
    return {
      next: (signal) => queue.next(signal),
      [Symbol.dispose]: () => {
        this.#queues.delete(queue);
        if (this.#queues.size > 0) return;
        this.#ignoreModel();
        this.#waiting.clear();
      },
    };
  }

  #hear({ id, sandboxId, sandbox, before, after }: ModelChange): void {
    const { model } = this.services.state;
    const happenings = [
      ...(this.#waiting.get(sandboxId) ?? []),
      ...transitions(before, after).map((type) => ({ id, type })),
    ];
    this.#waiting.delete(sandboxId);
    const isSandboxGone = id === sandboxId && after === undefined;
    if (isSandboxGone && sandbox !== undefined) this.#goneSandboxes.set(id, sandbox);
    if (happenings.length === 0) return;
    if (!model.isFullyInspected(sandboxId)) {
      this.#wait(sandboxId, happenings);
      return;
    }
    const last = sandbox ?? this.#goneSandboxes.get(sandboxId);
    if (last === undefined) {
      // Clients ignore an event without a pod.
      this.services.log.debug({ sandboxId, containerId: id }, "container event skipped, its sandbox is gone");
      return;
    }
    const present = sandbox === undefined || isSandboxGone ? withoutContainer(last) : sandbox;
    this.#emit(present, newestFirst(model.containersOf(sandboxId)), happenings);
  }

  #wait(sandboxId: string, happenings: Happening[]): void {
    this.#waiting.set(sandboxId, happenings);
    const count = [...this.#waiting.values()].reduce((sum, { length }) => sum + length, 0);
    if (count <= queueLimit) return;
    this.#waiting.clear();
    for (const queue of this.#queues) queue.overflow();
  }

  #emit(sandbox: Sandbox, containers: readonly Container[], happenings: readonly Happening[]): void {
    const statuses = this.#describe(sandbox, containers);
    for (const { id, type } of happenings) {
      const created_at = String(this.timestamp());
      const event = statuses.then((pod) => ({
        container_id: id,
        container_event_type: type,
        created_at,
        ...pod,
      }));
      event.catch(() => undefined); // `next` throws it for each client that reaches this event.
      for (const queue of this.#queues) queue.push(event);
    }
  }

  async #describe(sandbox: Sandbox, containers: readonly Container[]): Promise<PodStatuses> {
    const { services } = this;
    try {
      return await withDeadline(
        undefined,
        describeTimeoutMs,
        "describe a pod for its events",
        async (signal) => {
          const [pod_sandbox_status, ...containers_statuses] = await Promise.all([
            orAbort(describeSandbox(sandbox, services), signal),
            ...containers.map((container) => describeContainer(container, services, signal)),
          ]);
          return { pod_sandbox_status, containers_statuses };
        },
      );
    } catch (error) {
      services.log.warn(
        { sandboxId: sandbox.id, err: messageOf(error) },
        "closing event stream: cannot build pod status",
      );
      throw error;
    }
  }
}

/** The last known sandbox, but not ready. */
function withoutContainer(sandbox: Sandbox): Sandbox {
  const item = { ...sandbox.item, state: PodSandboxState.SANDBOX_NOTREADY };
  return { ...sandbox, ready: false, item };
}

/** The events that one client has not received yet, in order. */
class EventQueue<Event> {
  #events: Promise<Event>[] = [];
  #failure: ShimError | undefined;
  #wake: () => void = () => undefined;

  constructor(private readonly limit: number) {}

  /** A pending event keeps its place in the order. */
  push(event: Promise<Event>): void {
    if (this.#failure !== undefined) return;
    if (this.#events.length >= this.limit) this.overflow();
    else this.#events.push(event);
    this.#wake();
  }

  /** Drops all events and makes `next` throw `exhausted`. */
  overflow(): void {
    this.#events = [];
    const reason = `the client reads too slowly: more than ${this.limit} events wait for it`;
    this.#failure = new ShimError("exhausted", reason);
    this.#wake();
  }

  /** Throws the error of the event, `exhausted` after an overflow, and the reason of `signal`. */
  async next(signal: AbortSignal): Promise<Event> {
    for (;;) {
      if (this.#failure !== undefined) throw this.#failure;
      const event = this.#events.shift();
      if (event !== undefined) return await orAbort(event, signal);
      const woken = new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      await orAbort(woken, signal);
    }
  }
}
