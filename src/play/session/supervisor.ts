/** Keeps the plays that were left to it (`play --detach`): one process for each CRI socket. */
import { createServer } from "node:net";
import { linkAbort } from "../../lib/abort.js";
import { ShimError, messageOf } from "../../lib/errors.js";
import { Notify } from "../../lib/sync/notify.js";
import { DirectoryWatch } from "../../lib/files/directory-watch.js";
import { type BoundSocket, bindUnixSocket } from "../../lib/unix-socket.js";
import type { PodEvent } from "../kubelet/events.js";
import type { Kubelet } from "../kubelet/kubelet.js";
import { serverBack } from "../kubelet/pod-worker.js";
import { parseReplicas } from "../manifests/manifest-files.js";
import { readWorkloads } from "../manifests/read-manifests.js";
import type { Workloads } from "../manifests/workloads.js";
import {
  type FoundPlay,
  type PlayStore,
  type StoredPlay,
  playPrefix,
  withNames,
} from "../store/play-store.js";
import { listClaims, removeClaim } from "../store/play-claims.js";
import { Services } from "../services/services.js";
import { type PlayDeps, Session } from "./session.js";

export interface SupervisorDeps {
  readonly store: PlayStore;
  /** Each call gives another `playId`. */
  readonly kubeletDeps: (play: StoredPlay) => PlayDeps;
  /** Reads what plays know about the node again. */
  readonly renewNode: () => Promise<void>;
  /** Whether the server is the one of the beginning. Asked when it answers again after it did not. */
  readonly isSameServer: () => Promise<boolean>;
  /** Shows what happens to the pods of one play, until the result ends it. */
  readonly show: (kubelet: Kubelet) => Disposable;
  /** Lines for people. */
  readonly report: (line: string) => void;
}

/** For changes of files that the kernel does not report. */
const pollMs = 10_000;

/** Until none is left, `signal` aborts, or the server is another. Throws `conflict` beside another supervisor. */
export async function supervise(
  deps: SupervisorDeps,
  signal: AbortSignal,
): Promise<"ended" | "another server"> {
  const { store } = deps;
  const another = new AbortController();
  using _ = linkAbort(signal, () => another.abort());
  const onServerBack = (): void => {
    deps.isSameServer().then(
      (isSame) => {
        if (!isSame) another.abort();
      },
      () => undefined, // It does not answer: asked again when it does.
    );
  };
  for (;;) {
    const present = await listen(store.socketPath);
    try {
      await keepAll({ ...deps, onServerBack }, another.signal);
    } finally {
      await present.end();
    }
    if (signal.aborted) return "ended";
    if (another.signal.aborted) return "another server";
    // A play that was stored meanwhile has found a supervisor.
    if ((await store.list(() => undefined)).length === 0) return "ended";
  }
}

interface KeptDeps extends SupervisorDeps {
  readonly onServerBack: () => void;
}

/** Shows other processes that there is a supervisor. */
async function listen(path: string): Promise<{ readonly end: () => Promise<void> }> {
  const server = createServer((socket) => socket.on("error", () => undefined).destroy());
  const bound: BoundSocket = await bindUnixSocket(server, path);
  return {
    end: async () => {
      await bound.unlink();
      server.close();
    },
  };
}

async function keepAll(deps: KeptDeps, signal: AbortSignal): Promise<void> {
  const plays = new Map<string, KeptPlay>();
  const reported = new Set<string>();
  const reportOnce = (line: string): void => {
    if (!reported.has(line)) deps.report(line);
    reported.add(line);
  };
  const change = new Notify();
  // Not its own log, which is in the same directory: each line would be a reason to look again.
  const watch = new DirectoryWatch(deps.store.directory, { onChange: change.notify, prefix: playPrefix });
  const poll = setInterval(change.notify, pollMs);
  using _ = linkAbort(signal, change.notify);
  watch.start();
  try {
    while (!signal.aborted) {
      if (!(await keepFound(plays, deps, reportOnce, signal))) return;
      await change.notified();
    }
  } finally {
    watch.stop();
    clearInterval(poll);
    await Promise.all([...plays.values()].map((play) => play[Symbol.asyncDispose]()));
  }
}

/** Answers whether there are plays to keep. */
async function keepFound(
  plays: Map<string, KeptPlay>,
  deps: KeptDeps,
  report: (line: string) => void,
  signal: AbortSignal,
): Promise<boolean> {
  const { store } = deps;
  const claims = await listClaims(store.directory);
  const found = await store.list(report);
  // A play claims its workloads before it is stored, and no longer than until it was stored for the last time.
  const held = new Set(
    [...claims, ...(await listClaims(store.directory))]
      .filter(({ isHeld }) => isHeld)
      .flatMap(({ workloads }) => workloads),
  );
  for (const [id, play] of plays) {
    if (found.some((one) => one.id === id)) continue;
    plays.delete(id);
    await play[Symbol.asyncDispose]();
  }
  const ended = claims.filter(({ isHeld }) => !isHeld);
  const lost = new Set(ended.flatMap(({ workloads }) => workloads));
  for (const play of found) {
    const kept = plays.get(play.id) ?? new KeptPlay(play, deps);
    plays.set(play.id, kept);
    if (play.workloads.some((name) => lost.has(name))) kept.renew();
    await kept.update(play, held, signal);
  }
  for (const { id } of ended) await removeClaim(store.directory, id);
  return found.length > 0;
}

class KeptPlay implements AsyncDisposable {
  readonly #services: Services;
  readonly #session: Session;
  readonly #listening: readonly Disposable[];
  readonly #stop = new AbortController();
  #version: string | undefined;
  #isAdopted = false;
  #lastError: string | undefined;

  constructor(
    play: StoredPlay,
    private readonly deps: KeptDeps,
  ) {
    const kubeletDeps = deps.kubeletDeps(play);
    this.#services = new Services([], kubeletDeps);
    this.#session = new Session({ ...kubeletDeps, services: this.#services });
    const { kubelet } = this.#session;
    const onEvent = ({ reason }: PodEvent): void => {
      if (reason === serverBack) deps.onServerBack();
    };
    this.#listening = [this.#services.attach(kubelet), deps.show(kubelet), kubelet.listen({ onEvent })];
  }

  /** The next `update` takes all pods again. */
  renew(): void {
    this.#version = undefined;
  }

  /** `held`: workloads of attached plays. What fails is tried again by the next call, and reported once. */
  async update(play: FoundPlay, held: ReadonlySet<string>, signal: AbortSignal): Promise<void> {
    const own = play.workloads.filter((name) => !held.has(name));
    const version = [play.version, "", ...own].join("\n");
    if (version === this.#version) return;
    try {
      const workloads = await readStored(play, own);
      await this.deps.renewNode();
      if (!this.#isAdopted) await this.#services.adopt(workloads.pods, signal);
      this.#isAdopted = true;
      this.#services.replace(workloads.services);
      await this.#session.update(workloads, { obsolete: "leave" }, signal);
      this.#version = version;
      this.#lastError = undefined;
      if (own.length === play.workloads.length) this.#endOf(play, version);
    } catch (error) {
      const line = `${play.workloads.join(", ")}: ${messageOf(error)}`;
      if (!signal.aborted && line !== this.#lastError) this.deps.report(line);
      this.#lastError = line;
    }
  }

  /** When all its pods have ended, there is nothing to keep. */
  #endOf(play: FoundPlay, version: string): void {
    this.#session.ended(this.#stop.signal).then(
      () => {
        if (this.#version !== version || this.#session.hasLost) return;
        const { store, report } = this.deps;
        store.remove(play.id).catch((error: unknown) => report(`${play.id}: ${messageOf(error)}`));
      },
      () => undefined, // The supervisor ends.
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new ShimError("cancelled", "the supervisor leaves the play"));
    for (const listening of this.#listening) listening[Symbol.dispose]();
    await this.#session[Symbol.asyncDispose]();
    await this.#services[Symbol.asyncDispose]();
  }
}

/** `names`: what of it is wanted. */
async function readStored(play: StoredPlay, names: readonly string[]): Promise<Workloads> {
  const { schedule, localVolumes } = play;
  const replicas = parseReplicas(play.replicas);
  const workloads = await readWorkloads(play.files, { replicas, schedule, localVolumes });
  const { pods, services } = Services.plan(workloads);
  return withNames({ ...workloads, pods, services }, new Set(names));
}
