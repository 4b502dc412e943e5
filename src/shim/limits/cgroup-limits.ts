import { isDeepStrictEqual } from "node:util";
import { withDeadline } from "../../lib/abort.js";
import { messageOf, ShimError, isKind } from "../../lib/errors.js";
import type { Nanoseconds } from "../../lib/time.js";
import type { NodeFacts } from "../../domain/node-facts.js";
import type { Snapshot } from "../../domain/snapshot.js";
import type { CgroupSettings, HostSource } from "../ports/host.js";
import type { EngineState } from "../state/engine-state.js";
import type { Records } from "../state/records.js";
import type { KeyedMutex } from "../../lib/sync/keyed-mutex.js";
import { Semaphore } from "../../lib/sync/semaphore.js";
import type { Logger } from "../../lib/log.js";
import type { Call } from "../../lib/call.js";
import { needsCgroup, splitByNeed } from "../plan/cgroups.js";
import {
  lostLimits,
  scopeProperties,
  type ScopeProperty,
  systemdResetsCgroups,
} from "../plan/scope-properties.js";

interface Deps {
  readonly state: Pick<EngineState, "model" | "sync">;
  readonly records: Pick<Records, "containers">;
  readonly node: HostSource;
  readonly locks: { readonly containers: KeyedMutex };
  readonly log: Logger;
  /** Whether nothing may be changed: then nothing is compared. */
  readonly readOnly: boolean;
  /** Milliseconds for the limits of one container, not counting the wait for its lock. */
  readonly timeoutMs: number;
}

/** Limits that the Engine API has no field for, and those that systemd resets. */
export interface ContainerLimits {
  /**
   * Gives its limits to a container that was just started. Throws when that fails, unless the container has
   * ended. The caller holds the container's lock.
   */
  apply(container: Snapshot, signal: AbortSignal): Promise<void>;
  /** The same after a change of the limits on record, or of the engine's. */
  applyChanged(container: Snapshot, signal: AbortSignal): Promise<void>;
}

/** Containers whose limits are compared at the same time in the background. */
const concurrentLooks = 2;

/**
 * Applies the limits that Docker cannot set after each start of a container, also after a start that
 * StartContainer could not complete or that another program made. Those of containers that run when this
 * program starts are compared: no record says whether they have them. So are those of all containers when
 * systemd has loaded its units again, which resets what is no property of a scope.
 */
export class LimitReconciler implements ContainerLimits {
  /** Container id → the start for which the limits were applied or failed. */
  readonly #done = new Map<string, Nanoseconds>();
  /** Containers that are about to be compared. */
  readonly #waiting = new Set<string>();
  readonly #running = new Set<Promise<void>>();
  readonly #looks = new Semaphore(concurrentLooks);
  readonly #stop = new AbortController();
  /** Whether systemd writes the files of containers' cgroups, too. */
  #systemdResets = false;
  /**
   * Containers whose limits were just written. systemd writes all files of a scope when properties of it are
   * set, and that may end after the call has been answered: they are compared once more.
   */
  #written = new Set<string>();
  /**
   * What the host showed of containers after a background write. The kernel shows some values in another form
   * (`0-2` for `0,1,2`) and refuses others: as long as it shows the same, writing again changes nothing.
   */
  readonly #seen = new Map<string, { readonly started: Nanoseconds; readonly present?: CgroupSettings }>();
  /** What the host told when all containers were compared. */
  #units: { readonly mark: string | undefined; readonly times: number } = { mark: undefined, times: 0 };

  constructor(private readonly deps: Deps) {}

  /** Called before all containers are inspected again. */
  engineConnected(facts: NodeFacts): void {
    this.#systemdResets = systemdResetsCgroups(facts);
  }

  async apply(container: Snapshot, signal: AbortSignal): Promise<void> {
    const wanted = this.#wantedAfterStart(container);
    const given = container.scopeProperties ?? {};
    const properties = scopeProperties(wanted.unified).filter(
      ({ name, annotation }) => annotation === undefined || given[name] !== annotation,
    );
    await this.#write(container, wanted, properties, signal);
  }

  async applyChanged(container: Snapshot, signal: AbortSignal): Promise<void> {
    const wanted = this.#wanted(container);
    await this.#write(container, wanted, scopeProperties(wanted.unified), signal);
  }

  /** Called for every inspected container, and with undefined for a removed one. */
  observe(id: string, container: Snapshot | undefined): void {
    if (container === undefined) {
      this.#done.delete(id);
      this.#seen.delete(id);
    } else if (!this.#isOff && !this.#waiting.has(id) && this.#lacks(container)) this.#inBackground(id);
  }

  /** Called when the engine is live, and every 30 s. */
  engineCompared(): void {
    if (!this.#systemdResets || this.#isOff) return;
    const work = this.#compareReset().finally(() => this.#running.delete(work));
    this.#running.add(work);
  }

  async stop(): Promise<void> {
    this.#stop.abort(new ShimError("cancelled", "the shim is stopping"));
    await Promise.all(this.#running);
  }

  get #isOff(): boolean {
    return this.deps.readOnly || this.#stop.signal.aborted;
  }

  /** A systemd that still loads its units resets limits after the first comparison: there is a second one. */
  async #compareReset(): Promise<void> {
    const { model } = this.deps.state;
    const mark = await this.deps.node.host().unitsLoaded();
    const times = mark === this.#units.mark ? this.#units.times + 1 : 1;
    if (times === 1) this.#seen.clear();
    const mayBeReset = mark === undefined || times <= 2;
    this.#units = { mark, times };
    const ids = mayBeReset ? model.ids() : this.#written;
    this.#written = new Set();
    for (const id of ids) {
      this.#done.delete(id);
      const container = model.snapshot(id);
      if (container !== undefined) this.observe(id, container);
    }
  }

  #wanted({ id, resources }: Snapshot): CgroupSettings {
    const { unified = {}, hugepages = [] } = this.deps.records.containers.get(id)?.cgroup ?? {};
    return { unified: { ...(this.#systemdResets ? lostLimits(resources) : {}), ...unified }, hugepages };
  }

  /** What holds since the first instruction needs no reach of the cgroup afterwards. */
  #wantedAfterStart(container: Snapshot): CgroupSettings {
    const wanted = this.#wanted(container);
    const { others } = splitByNeed(wanted);
    const early = this.deps.records.containers.get(container.id)?.oci?.limits ?? [];
    return {
      unified: early.includes("unified") ? others.unified : wanted.unified,
      hugepages: early.includes("hugepages") ? others.hugepages : wanted.hugepages,
    };
  }

  #lacks(container: Snapshot): boolean {
    const { id, state } = container;
    return state.running && this.#done.get(id) !== state.started && !isEmpty(this.#wanted(container));
  }

  /** `properties` come first: with them systemd writes the files. */
  async #write(
    container: Snapshot,
    wanted: CgroupSettings,
    properties: readonly ScopeProperty[],
    signal: AbortSignal,
  ): Promise<void> {
    const { id, state } = container;
    const { log, node } = this.deps;
    if (!state.running || isEmpty(wanted)) return;
    this.#done.set(id, state.started);
    this.#seen.delete(id);
    if (this.#systemdResets) {
      this.#written.add(id);
      const assignments = properties.map(({ assignment }) => assignment);
      if (assignments.length > 0) await node.host().setScopeProperties(container, assignments, signal);
    }
    await applyCgroupLimits(container, wanted, this.deps, { log, signal });
  }

  /**
   * Unlike StartContainer this does not stop a container when the limits fail: it may have run well for a
   * long time. Waits for the lock without a limit: a checkpoint may hold it for long, and there may be no
   * later inspect to try again. It passes the lock before it takes one of the few permits, so that a long
   * holder keeps none, and never waits for a permit inside the lock: calls for the container need that.
   */
  #inBackground(id: string): void {
    const { locks, log } = this.deps;
    const { signal } = this.#stop;
    this.#waiting.add(id);
    const work = locks.containers
      .run(id, signal, () => Promise.resolve())
      .then(() => this.#looks.run(signal, () => this.#compare(id)))
      .catch((error: unknown) => {
        if (signal.aborted) return;
        log.error(
          { containerId: id, err: messageOf(error) },
          "cannot apply the cgroup limits of a running container",
        );
      })
      .finally(() => this.#running.delete(work));
    this.#running.add(work);
  }

  async #compare(id: string): Promise<void> {
    const { state, locks } = this.deps;
    this.#waiting.delete(id);
    const container = state.model.snapshot(id);
    if (container === undefined || !this.#lacks(container)) return;
    this.#done.set(id, container.state.started);
    if ((await this.#lost(container)) !== undefined)
      await locks.containers.run(id, this.#stop.signal, () => this.#repair(id));
  }

  /** Looks again: a call may have changed the container before this got its lock. */
  async #repair(id: string): Promise<void> {
    const { state, node, log, timeoutMs } = this.deps;
    const container = state.model.snapshot(id);
    const lost = container?.state.running === true ? await this.#lost(container) : undefined;
    if (container === undefined || lost === undefined) return;
    const wanted = this.#wanted(container);
    try {
      await withDeadline(this.#stop.signal, timeoutMs, "apply cgroup limits", (signal) =>
        this.#write(container, wanted, scopeProperties(lost.unified), signal),
      );
    } finally {
      const present = await node.host().presentCgroup(container, wanted);
      this.#seen.set(id, { started: container.state.started, ...(present !== undefined && { present }) });
    }
    log.debug({ containerId: id, settings: Object.keys(lost.unified) }, "cgroup limits written");
  }

  /** The limits that are to be written again, if any. */
  async #lost(container: Snapshot): Promise<CgroupSettings | undefined> {
    const wanted = this.#wanted(container);
    const present = await this.deps.node.host().presentCgroup(container, wanted);
    if (present === undefined && !needsCgroup(this.#wantedAfterStart(container))) return undefined;
    const seen = this.#seen.get(container.id);
    if (seen?.started === container.state.started && isDeepStrictEqual(seen.present, present))
      return undefined;
    const lost = present === undefined ? wanted : lostSettings(wanted, present);
    return isEmpty(lost) ? undefined : lost;
  }
}

function isEmpty({ unified, hugepages }: CgroupSettings): boolean {
  return Object.keys(unified).length === 0 && hugepages.length === 0;
}

/** Those of `wanted` that are not in force, without those that the host has no file for. */
function lostSettings(wanted: CgroupSettings, present: CgroupSettings): CgroupSettings {
  return {
    unified: Object.fromEntries(
      Object.entries(wanted.unified).filter(([name, value]) => {
        const shown = present.unified[name];
        return shown !== undefined && shown !== value && shown !== inPages(name, value);
      }),
    ),
    hugepages: wanted.hugepages.filter(({ pageSize, limitBytes }) =>
      present.hugepages.some((one) => one.pageSize === pageSize && one.limitBytes !== limitBytes),
    ),
  };
}

const pageBytes = 4096n;
const bytesForm = /^memory\.(?:z?swap\.)?(?:min|low|high|max)$/;

/** The kernel counts memory in pages, rounded down. */
function inPages(name: string, value: string): string {
  if (!bytesForm.test(name) || !/^\d{1,20}$/.test(value)) return value;
  return String((BigInt(value) / pageBytes) * pageBytes);
}

/**
 * Writes limits that the Engine API has no field for into the cgroup of a running container: all that can be
 * written, then the first error. A container that has ended meanwhile needs none. Limits that kubelets send
 * for every container are skipped where they cannot be set.
 */
export async function applyCgroupLimits(
  container: Snapshot,
  settings: CgroupSettings,
  { node, state }: { readonly node: HostSource; readonly state: Pick<EngineState, "sync"> },
  call: Pick<Call, "signal" | "log">,
): Promise<void> {
  const { needed, others } = splitByNeed(settings);
  const failures: unknown[] = [];
  for (const part of [needed, others]) {
    if (isEmpty(part)) continue;
    try {
      await node.host().applyCgroup(container, part, call.signal);
    } catch (error) {
      if (part === needed || !isKind(error, "unsupported")) failures.push(error);
      else call.log.debug({ containerId: container.id, err: messageOf(error) }, "cgroup limits not applied");
    }
  }
  if (failures.length === 0) return;
  const now = await state.sync.refresh(container.id).catch(() => container);
  if (now?.state.running === true) throw failures[0];
}
