import { linkAbort, orAbort, sleep, withDeadline } from "../lib/abort.js";
import { runInCall } from "../lib/call.js";
import { messageOf, ShimError } from "../lib/errors.js";
import { Backoff, type BackoffTimes } from "../lib/sync/backoff.js";
import type { Logger } from "../lib/log.js";
import { inheritsPodType, mayInheritPodType, typeLabel } from "../domain/labels.js";
import { isSameEngine, type NodeFacts } from "../domain/node-facts.js";
import { descriptionLimitBytes, type Snapshot } from "../domain/snapshot.js";
import type { Engine, EngineEvent } from "../ports/engine.js";
import type { EngineLink } from "./engine-link.js";
import type { ReadModel } from "./read-model.js";
import { Refresher } from "./refresher.js";
import { Retries } from "./retries.js";
import { Resync } from "./resync.js";

export interface StateSyncOptions {
  /** A full comparison with the engine's list happens this often, against silently lost events. */
  readonly resyncIntervalMs: number;
  /** Limit of one inspect. One container whose inspect hangs makes only its own status stale. */
  readonly inspectTimeoutMs: number;
  /** An inspect that failed is tried again after this time, later ones after twice as long, up to `resyncIntervalMs`. */
  readonly retryMs: number;
  /** A comparison goes on without an inspect that takes longer; that ends in the background. */
  readonly inspectPatienceMs: number;
  readonly connectTimeoutMs: number;
  /** Pauses between attempts to reach a lost engine. */
  readonly reconnectMs: BackoffTimes;
}

export const defaultStateSyncOptions: StateSyncOptions = {
  resyncIntervalMs: 30_000,
  inspectTimeoutMs: 10_000,
  retryMs: 500,
  inspectPatienceMs: 1_000,
  connectTimeoutMs: 10_000,
  reconnectMs: { first: 100, longest: 3_000 },
};

export interface StateSyncDeps {
  readonly engine: Engine;
  readonly model: ReadModel;
  readonly link: EngineLink;
  readonly log: Logger;
  /**
   * Called after each connect, before the model is live. A throw counts as a failed connect, and so does taking longer
   * than a connect may: then it must change nothing any more.
   */
  readonly onConnect: (facts: NodeFacts, signal: AbortSignal) => Promise<void>;
  /** Told of each failed connect and each broken link; may say that trying again is of no use. */
  readonly onConnectError?: (error: ShimError) => "giveUp" | "tryAgain";
  /** Called each time that the model has become live, without being waited for. */
  readonly onLive: (facts: NodeFacts) => void;
  /** Image events, for the caches of images. */
  readonly onImageEvent: (event: EngineEvent) => void;
  /** A container outside of pods was created or removed. */
  readonly onOtherContainer?: () => void;
  /**
   * What an inspect said, before the read model has it; undefined: the container is gone. Only that container waits for
   * it. Must end by itself and never throw.
   */
  readonly beforeChange?: (id: string, snapshot: Snapshot | undefined) => Promise<void>;
  /** A container of ours changed; `snapshot` is undefined when it is gone. */
  readonly onChange?: (id: string, snapshot: Snapshot | undefined) => void;
}

/**
 * Keeps the read model equal to the engine.
 *
 *     connect → subscribe to events → list → inspect all → live (and now and then: list → inspect what differs)
 *        ^                                                            |
 *        +------------- event stream broke: wait, again <-------------+
 *
 * Only `refresh(id)` changes an entry: it inspects, and stores or deletes. Everything else (an event, a resync, the end
 * of a mutating RPC) merely names ids to refresh: the payload of an event is never believed, because events come late,
 * twice, or not at all. Only that an id exists is taken from a list, until it can be inspected: an inspect that hangs
 * neither keeps the others from being seen, nor makes its own container look gone.
 */
export class StateSync {
  readonly #refresher = new Refresher((id, signal) => this.#inspect(id, signal));
  readonly #resync: Resync;
  readonly #retries: Retries;
  /** Container descriptions that were too large, and were reported. */
  readonly #trimmed = new Set<string>();
  /** What is to be done before the pause between two comparisons is over; and what ends that pause. */
  #due = { comparison: false, facts: false };
  #pause = new AbortController();
  #stop = new AbortController();
  #finished: Promise<void> = Promise.resolve();

  constructor(
    private readonly deps: StateSyncDeps,
    private readonly options: StateSyncOptions = defaultStateSyncOptions,
  ) {
    this.#resync = new Resync({
      ...{ engine: deps.engine, model: deps.model },
      refresh: (id) => this.#refresher.refresh(id),
      warnOfStale: (id, error) => {
        this.#warnOfStale(id, error);
      },
      listTimeoutMs: options.connectTimeoutMs,
      patienceMs: options.inspectPatienceMs,
    });
    this.#retries = new Retries({
      pausesMs: { first: options.retryMs, longest: options.resyncIntervalMs },
      // Without an engine there is nothing to ask; when it is back, everything is read.
      isDue: (id) => deps.link.state.phase === "live" && deps.model.isStale(id),
      work: (id) => this.#refresher.refresh(id),
    });
  }

  /**
   * As of when the model is known to be whole, in milliseconds of `performance.now()`: the last comparison with the
   * engine's list. Undefined before the first one.
   */
  get comparedAtMs(): number | undefined {
    return this.#resync.comparedAtMs;
  }

  /** Begins to follow the engine in the background. */
  start(): void {
    this.#stop = new AbortController();
    const { signal } = this.#stop;
    const call = { rpc: "sync", signal, log: this.deps.log };
    this.#finished = runInCall(call, () => this.#follow(signal));
  }

  async stop(): Promise<void> {
    const reason = new ShimError("cancelled", "the shim is stopping");
    this.#stop.abort(reason);
    this.#refresher.abort(reason);
    await Promise.all([this.#finished, this.#retries.stop()]);
  }

  /**
   * Read-your-writes: awaited at the end of every mutating RPC. Waits for an inspect that began after the call. When
   * the engine cannot say, the caller's action is done all the same, and the error is the caller's to weigh. `signal`
   * ends the waiting, and the inspect when nobody else wants it.
   */
  async refresh(id: string, signal?: AbortSignal): Promise<Snapshot | undefined> {
    await this.#refresher.refresh(id, signal);
    return this.deps.model.snapshot(id);
  }

  async #inspect(id: string, deserted: AbortSignal): Promise<void> {
    const { model } = this.deps;
    this.#stop.signal.throwIfAborted();
    let snapshot: Snapshot | undefined;
    try {
      snapshot = await withDeadline(
        deserted,
        this.options.inspectTimeoutMs,
        `inspect container ${id}`,
        (signal) => this.#describe(id, signal),
      );
    } catch (error) {
      model.failed(id);
      if (!this.#stop.signal.aborted) this.#retries.schedule(id);
      throw error;
    }
    this.#retries.succeeded(id);
    this.#noteTrimmed(id, snapshot);
    await this.deps.beforeChange?.(id, snapshot);
    if (snapshot === undefined) {
      model.delete(id);
      this.#resync.noteGone(id);
    } else model.put(snapshot);
    this.deps.onChange?.(id, snapshot);
  }

  /** Without its labels when they make it a part of a pod only because its image has them. */
  async #describe(id: string, signal: AbortSignal): Promise<Snapshot | undefined> {
    const { engine } = this.deps;
    const snapshot = await engine.inspectContainer(id, signal);
    if (snapshot === undefined || !mayInheritPodType(snapshot)) return snapshot;
    const image = await engine.inspectImage(snapshot.imageId, signal);
    return inheritsPodType(snapshot, image) ? { ...snapshot, labels: {} } : snapshot;
  }

  async #follow(signal: AbortSignal): Promise<void> {
    const { link, log } = this.deps;
    const backoff = new Backoff(this.options.reconnectMs);
    for (;;) {
      try {
        await this.#session(signal, () => {
          backoff.reset();
        });
      } catch (error) {
        if (signal.aborted) return;
        const reason = ShimError.from(error, "unavailable");
        if (this.deps.onConnectError?.(reason) === "giveUp") return;
        if (link.state.phase === "live") {
          // Often only the stream broke; the next round tells.
          log.warn({ err: reason.message }, "engine link broken, connecting again");
          link.set({ phase: "recovering", facts: link.state.facts });
          // A stream that breaks at once every time must not become a busy loop.
          await sleep(this.options.reconnectMs.first, signal).catch(() => undefined);
          continue;
        }
        // One line per change, not one per attempt.
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
    await withDeadline(signal, connectTimeoutMs, "look at the host of the Docker Engine", (limited) =>
      orAbort(this.deps.onConnect(facts, limited), limited),
    );

    const session = new AbortController();
    using _ = linkAbort(signal, () => {
      session.abort(signal.reason);
    });
    try {
      let opened!: () => void;
      const subscribed = new Promise<void>((resolve) => {
        opened = resolve;
      });
      const reading = this.#readEvents(opened, session.signal);
      reading.catch(() => undefined); // Heard by the races below; it also ends when one of them was lost earlier.
      await withDeadline(
        session.signal,
        connectTimeoutMs,
        "subscribe to the events of the Docker Engine",
        (limited) => orAbort(Promise.race([subscribed, reading]), limited),
      );
      // All of it: whatever happened while nobody listened may have left the state as it was (a restart).
      await this.#resync.run(session.signal, { only: "all" });
      link.set({ phase: "live", facts });
      onLive();
      log.info({ engine: facts.engineVersion, api: `1.${String(facts.apiMinor)}` }, "engine live");
      this.deps.onLive(facts);
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

  /** Kept trivial, because the engine drops events for a slow reader: mark and return. */
  async #readEvents(opened: () => void, signal: AbortSignal): Promise<never> {
    for await (const event of this.deps.engine.events(typeLabel, opened, signal)) {
      if (event.type === "image") this.deps.onImageEvent(event);
      else if (event.type === "container") this.#refreshInBackground(event.id);
      else if (event.type === "otherContainer") this.deps.onOtherContainer?.();
      else this.#compareSoon({ withFacts: event.type === "daemon" });
    }
    throw new ShimError("unavailable", "the event stream of the Docker Engine ended");
  }

  #refreshInBackground(id: string): void {
    this.#refresher.refresh(id).catch((error: unknown) => {
      this.#warnOfStale(id, error);
    });
  }

  /** Once for each container. */
  #noteTrimmed(id: string, snapshot: Snapshot | undefined): void {
    if (snapshot?.isTrimmed !== true) {
      this.#trimmed.delete(id);
    } else if (!this.#trimmed.has(id)) {
      this.#trimmed.add(id);
      this.deps.log.warn(
        { containerId: id, limitBytes: descriptionLimitBytes },
        "container description too large, labels and annotations are left out",
      );
    }
  }

  /** Once, until an inspect succeeds. */
  #warnOfStale(id: string, error: unknown): void {
    if (this.#stop.signal.aborted || !this.#retries.isNews(id)) return;
    this.deps.log.warn({ containerId: id, err: messageOf(error) }, "inspect failed, its status is stale");
  }

  #compareSoon({ withFacts }: { readonly withFacts: boolean }): void {
    this.#due.comparison = true;
    this.#due.facts ||= withFacts;
    this.#pause.abort();
  }

  /** Compares now and then, and when an event asks for it. Throws when the engine is another one than before. */
  async #keepUp(facts: NodeFacts, signal: AbortSignal): Promise<never> {
    let known = facts;
    for (;;) {
      await this.#nextComparison(signal);
      const areFactsDue = this.#due.facts;
      this.#due = { comparison: false, facts: false };
      if (areFactsDue) known = await this.#readFactsAgain(known, signal);
      await this.#resync.run(signal, { only: "different" });
    }
  }

  async #nextComparison(signal: AbortSignal): Promise<void> {
    const { resyncIntervalMs, retryMs } = this.options;
    const pause = new AbortController();
    this.#pause = pause;
    using _ = linkAbort(signal, () => {
      pause.abort();
    });
    if (!this.#due.comparison) await sleep(resyncIntervalMs, pause.signal).catch(() => undefined);
    // Events that nobody can read may come in any number: one comparison is enough for all of this time.
    if (this.#due.comparison) await sleep(retryMs, signal);
    signal.throwIfAborted();
  }

  /** The engine has reloaded its configuration, which can change its runtimes. */
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
