import { linkAbort, orAbort, sleep, withDeadline } from "../../lib/abort.js";
import { runInCall } from "../../lib/call.js";
import { isKind, messageOf, ShimError } from "../../lib/errors.js";
import { Backoff, type BackoffTimes } from "../../lib/sync/backoff.js";
import type { Logger } from "../../lib/log.js";
import { typeLabel } from "../../domain/labels.js";
import { isSameEngine, type NodeFacts } from "../../domain/node-facts.js";
import type { Snapshot } from "../../domain/snapshot.js";
import type { Engine, EngineEvent } from "../ports/engine.js";
import { silenceMs } from "./engine-liveness.js";
import type { EngineLink } from "./engine-link.js";
import { expectUnlessInspected } from "./first-inspects.js";
import { Inspector } from "./inspector.js";
import { OwnChanges } from "./own-changes.js";
import type { ReadModel } from "./read-model.js";
import { Refresher } from "./refresher.js";
import { Retries } from "./retries.js";
import { Resync } from "./resync.js";
import type { SyncSubscriber } from "./sync-subscriber.js";

export interface StateSyncDeps {
  readonly engine: Engine;
  readonly model: ReadModel;
  readonly link: EngineLink;
  readonly log: Logger;
}

/** Longer than the deadlines of all that is between two steps of `#follow`. */
const longestStepMs = 5 * 60_000;

/**
 * Keeps the read model equal to the engine.
 *
 *     connect → subscribe to events → list → inspect all → live (then: list → inspect what differs)
 *        ^                                                            |
 *        +------------- event stream broke: wait, again <-------------+
 *
 * Only `refresh(id)` changes an entry: it inspects, and stores or deletes. Events, resyncs and mutating RPCs
 * only name ids to refresh: payloads of events are not used, because events come late, twice, or not at all.
 * Events of containers that a call is changing wait for the refresh of that call.
 * A list adds ids as pending entries, so that an inspect that hangs neither delays other containers nor makes
 * its own look removed.
 */
export class StateSync {
  readonly #refresher = new Refresher((id, signal) => this.#refreshNow(id, signal));
  readonly #resync: Resync;
  readonly #retries: Retries;
  readonly #ownChanges: OwnChanges;
  readonly #inspector: Inspector;
  readonly #subscribers: SyncSubscriber[] = [];
  /** What has to be done before the next periodic comparison. */
  #due = { comparison: false, facts: false };
  /** The last comparison did not end in time. */
  #isLate = false;
  #steppedAtMs = performance.now();
  /** Aborted to end the pause between two comparisons. */
  #pause = new AbortController();
  #stop = new AbortController();
  #finished: Promise<void> = Promise.resolve();

  constructor(
    private readonly deps: StateSyncDeps,
    private readonly options: StateSyncOptions = defaultStateSyncOptions,
  ) {
    this.#resync = new Resync({
      engine: deps.engine,
      model: deps.model,
      refresh: (id) => this.#refresher.refresh(id),
      warnOfStale: (id, error) => this.#warnOfStale(id, error),
      listTimeoutMs: options.connectTimeoutMs,
      waitMs: options.inspectWaitMs,
    });
    this.#retries = new Retries({
      pausesMs: { first: options.retryMs, longest: options.resyncIntervalMs },
      // While the engine is lost, nothing is inspected; after the reconnect everything is.
      isDue: (id) => deps.link.state.phase === "live" && deps.model.isStale(id),
      work: (id) => this.#refresher.refresh(id),
    });
    this.#inspector = new Inspector({
      engine: deps.engine,
      log: deps.log,
      timeoutMs: options.inspectTimeoutMs,
    });
    this.#ownChanges = new OwnChanges({
      model: deps.model,
      isRefreshing: (id) => this.isInspecting(id),
      refresh: (id) => this.#refreshInBackground(id),
    });
  }

  /**
   * When the last comparison with the engine's list began, in milliseconds of `performance.now()`; undefined
   * before the first one.
   */
  get comparedAtMs(): number | undefined {
    return this.#resync.comparedAtMs;
  }

  /** False when the engine is neither followed nor tried: each step has a deadline, also while the engine hangs. */
  get isMoving(): boolean {
    return performance.now() - this.#steppedAtMs < longestStepMs;
  }

  /** Whether an inspect of the container is under way. */
  isInspecting(id: string): boolean {
    return this.#refresher.has(id);
  }

  /** Before `start`. */
  subscribe(subscriber: SyncSubscriber): void {
    this.#subscribers.push(subscriber);
  }

  /** Starts to follow the engine in the background. */
  start(): void {
    this.#stop = new AbortController();
    const { signal } = this.#stop;
    const call = { rpc: "sync", signal, log: this.deps.log };
    this.#finished = runInCall(call, () => this.#follow(signal));
  }

  async stop(): Promise<void> {
    const reason = new ShimError("cancelled", "the shim is stopping");
    this.#stop.abort(reason);
    this.#ownChanges.stop();
    this.#refresher.abort(reason);
    await Promise.all([this.#finished, this.#retries.stop()]);
  }

  /**
   * Read-your-writes for mutating RPCs: waits for an inspect that began after this call, and throws its
   * error. The caller decides what a failed inspect means for an action that has succeeded. `signal` ends the
   * wait, and the inspect unless others wait for it.
   */
  async refresh(id: string, signal?: AbortSignal): Promise<Snapshot | undefined> {
    await this.#refresher.refresh(id, signal);
    return this.deps.model.snapshot(id);
  }

  /**
   * For RPCs that change the container of this Docker name: its events wait for their `refresh` until the
   * result is disposed.
   */
  changing(name: string): Disposable {
    return this.#ownChanges.begin(name);
  }

  /**
   * Removes the container from the engine, and then from the read model. No inspect follows an answer of the
   * engine that says that it has removed the container. `signal` does not end the part after that answer.
   */
  async remove(id: string, options: { readonly force: boolean }, signal: AbortSignal): Promise<void> {
    using _ = this.changing(this.deps.model.snapshot(id)?.name ?? "");
    const outcome = await this.deps.engine.removeContainer(id, options, signal);
    if (outcome === "removed") this.#inspector.noteRemoved(id);
    // In the queue, because an inspect that began before the removal may end after it.
    await this.#refresher.refresh(id);
  }

  async #refreshNow(id: string, cancelled: AbortSignal): Promise<void> {
    const { model } = this.deps;
    this.#stop.signal.throwIfAborted();
    const answered = this.#ownChanges.inspectBegins(id);
    let snapshot: Snapshot | undefined;
    try {
      snapshot = await this.#inspector.inspect(id, cancelled);
    } catch (error) {
      model.failed(id);
      if (!this.#stop.signal.aborted) this.#retries.schedule(id);
      throw error;
    }
    answered();
    this.#retries.succeeded(id);
    for (const one of this.#subscribers) await one.beforeChange?.(id, snapshot);
    if (snapshot === undefined) {
      model.delete(id);
      this.#resync.noteRemoved(id);
    } else model.put(snapshot);
    for (const one of this.#subscribers) one.inspected?.(id, snapshot);
  }

  async #follow(signal: AbortSignal): Promise<void> {
    const { link, log } = this.deps;
    const backoff = new Backoff(this.options.reconnectMs);
    for (;;) {
      this.#steppedAtMs = performance.now();
      try {
        await this.#session(signal, () => backoff.reset());
      } catch (error) {
        if (signal.aborted) return;
        const reason = ShimError.from(error, "unavailable");
        if (this.#subscribers.map((one) => one.connectFailed?.(reason)).includes("stop")) return;
        if (link.state.phase === "live") {
          log.warn({ err: reason.message }, "engine link broken, connecting again");
          link.set({ phase: "recovering", facts: link.state.facts });
          // Against a busy loop with an event stream that breaks at once every time.
          await sleep(this.options.reconnectMs.first, signal).catch(() => undefined);
          continue;
        }
        // One line per outage.
        if (link.state.phase !== "lost") log.error({ err: reason.message }, "engine lost");
        link.set({ phase: "lost", reason });
        await sleep(backoff.next(), signal).catch(() => undefined);
      }
    }
  }

  /** From connect to the end of the event stream; always ends by throwing. */
  async #session(signal: AbortSignal, onLive: () => void): Promise<never> {
    const { link, log } = this.deps;
    const facts = await this.#connect(signal);
    if (link.state.phase === "lost") link.set({ phase: "recovering", facts });
    const { connectTimeoutMs } = this.options;
    await withDeadline(signal, connectTimeoutMs, "examine the host of the Docker Engine", (limited) =>
      orAbort(this.#connected(facts, limited), limited),
    );

    this.#steppedAtMs = performance.now();
    const session = new AbortController();
    using _ = linkAbort(signal, () => session.abort(signal.reason));
    try {
      let opened!: () => void;
      const subscribed = new Promise<void>((resolve) => {
        opened = resolve;
      });
      const reading = this.#readEvents(opened, session.signal);
      reading.catch(() => undefined); // The races below throw it; it may also fail after the session ended.
      await withDeadline(
        session.signal,
        connectTimeoutMs,
        "subscribe to the events of the Docker Engine",
        (limited) => orAbort(Promise.race([subscribed, reading]), limited),
      );
      // All containers: a restart during the outage may have left a container in the same state.
      await this.#resync.run(session.signal, { only: "all" });
      link.set({ phase: "live", facts });
      onLive();
      log.info({ engine: facts.engineVersion, api: `1.${facts.apiMinor}` }, "engine live");
      for (const one of this.#subscribers) one.engineLive?.(facts);
      return await Promise.race([reading, this.#keepUp(facts, session.signal)]);
    } finally {
      session.abort(new ShimError("cancelled", "engine session ended"));
    }
  }

  async #connect(signal: AbortSignal): Promise<NodeFacts> {
    return withDeadline(signal, this.options.connectTimeoutMs, "connect to the Docker Engine", (limited) =>
      this.deps.engine.connect(limited),
    );
  }

  async #connected(facts: NodeFacts, signal: AbortSignal): Promise<void> {
    for (const one of this.#subscribers) {
      await one.engineConnected?.(facts, signal);
      signal.throwIfAborted();
    }
  }

  /** Handlers return at once: the engine drops events for a slow reader. */
  async #readEvents(opened: () => void, signal: AbortSignal): Promise<never> {
    for await (const event of this.deps.engine.events(typeLabel, opened, signal)) {
      if (event.type === "image") for (const one of this.#subscribers) one.imagesChanged?.();
      else if (event.type === "container") this.#onContainerEvent(event);
      else if (event.type === "otherContainer")
        for (const one of this.#subscribers) one.otherContainersChanged?.();
      else this.#compareSoon({ withFacts: event.type === "daemon" });
    }
    throw new ShimError("unavailable", "the event stream of the Docker Engine ended");
  }

  #onContainerEvent(event: EngineEvent): void {
    const isOver = this.#inspector.isRemoved(event.id) && !this.deps.model.has(event.id);
    if (!isOver && !this.#ownChanges.takes(event)) this.#refreshInBackground(event.id);
  }

  #refreshInBackground(id: string): void {
    if (!this.deps.model.has(id)) this.#expectUnlessInspected(id);
    this.#refresher.refresh(id).catch((error: unknown) => this.#warnOfStale(id, error));
  }

  #expectUnlessInspected(id: string): void {
    const { connectTimeoutMs: timeoutMs, firstInspectMs: patienceMs } = this.options;
    const isInspecting = (one: string): boolean => this.isInspecting(one);
    expectUnlessInspected(id, { ...this.deps, isInspecting, patienceMs, timeoutMs }, this.#stop.signal).catch(
      // The inspect that is under way, or the next comparison, tells of the container as well.
      () => undefined,
    );
  }

  /** Logs once, until an inspect succeeds. */
  #warnOfStale(id: string, error: unknown): void {
    if (this.#stop.signal.aborted || !this.#retries.isFirstFailure(id)) return;
    this.deps.log.warn({ containerId: id, err: messageOf(error) }, "inspect failed, its status is stale");
  }

  #compareSoon({ withFacts }: { readonly withFacts: boolean }): void {
    this.#due.comparison = true;
    this.#due.facts ||= withFacts;
    this.#pause.abort();
  }

  /**
   * Compares periodically and after events that require it. Throws when the engine is another one than at the
   * connect.
   */
  async #keepUp(facts: NodeFacts, signal: AbortSignal): Promise<never> {
    let known = facts;
    for (;;) {
      this.#steppedAtMs = performance.now();
      await this.#nextComparison(signal);
      const areFactsDue = this.#due.facts;
      this.#due = { comparison: false, facts: false };
      try {
        if (areFactsDue) known = await this.#readFactsAgain(known, signal);
        await this.#resync.run(signal, { only: "different" });
        this.#isLate = false;
        for (const one of this.#subscribers) one.engineCompared?.();
      } catch (error) {
        // A loaded engine that answers other requests is slow. What its events tell is known in the meantime.
        if (!isKind(error, "timeout") || !this.deps.engine.hasAnswered(silenceMs)) throw error;
        if (!this.#isLate)
          this.deps.log.warn({ err: messageOf(error) }, "the engine is too slow for a comparison");
        this.#isLate = true;
        this.#due.facts ||= areFactsDue;
      }
    }
  }

  async #nextComparison(signal: AbortSignal): Promise<void> {
    const { resyncIntervalMs, retryMs } = this.options;
    const pause = new AbortController();
    this.#pause = pause;
    using _ = linkAbort(signal, () => pause.abort());
    if (!this.#due.comparison) await sleep(resyncIntervalMs, pause.signal).catch(() => undefined);
    // Unreadable events may come in any number: one comparison is enough for all of this time.
    if (this.#due.comparison) await sleep(retryMs, signal);
    signal.throwIfAborted();
  }

  /** For an engine that has reloaded its configuration, which can change its runtimes. */
  async #readFactsAgain(known: NodeFacts, signal: AbortSignal): Promise<NodeFacts> {
    const { link, log } = this.deps;
    const facts = await this.#connect(signal);
    if (!isSameEngine(known, facts))
      throw new ShimError("unavailable", "the Docker Engine is another one than at the connect");
    // The link may have broken meanwhile.
    signal.throwIfAborted();
    link.set({ phase: "live", facts });
    const runtimes = facts.runtimes.map(({ name }) => name);
    log.info({ runtimes }, "engine configuration reloaded");
    return facts;
  }
}

export interface StateSyncOptions {
  /** Interval of full comparisons with the engine's list, because events can be lost. */
  readonly resyncIntervalMs: number;
  /** Limit of one inspect. */
  readonly inspectTimeoutMs: number;
  /** First pause before a failed inspect is tried again; it doubles up to `resyncIntervalMs`. */
  readonly retryMs: number;
  /** How long a comparison waits for one inspect, which then ends in the background. */
  readonly inspectWaitMs: number;
  /** How long the first inspect of a container may take before the engine's list is asked about it. */
  readonly firstInspectMs: number;
  readonly connectTimeoutMs: number;
  /** Pauses between attempts to reach a lost engine. */
  readonly reconnectMs: BackoffTimes;
}

export const defaultStateSyncOptions: StateSyncOptions = {
  resyncIntervalMs: 30_000,
  inspectTimeoutMs: 30_000,
  retryMs: 500,
  inspectWaitMs: 1_000,
  firstInspectMs: 100,
  connectTimeoutMs: 30_000,
  reconnectMs: { first: 100, longest: 3_000 },
};
