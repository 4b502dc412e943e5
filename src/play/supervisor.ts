/** Keeps the plays that were left to it (`play --detach`): one process for each CRI socket. */
import { createServer } from "node:net";
import { linkAbort } from "../shim/lib/abort.js";
import { ShimError, messageOf } from "../shim/lib/errors.js";
import { Bell } from "../shim/lib/sync/bell.js";
import { DirectoryWatch } from "../shim/lib/files/directory-watch.js";
import { type BoundSocket, bindUnixSocket } from "../shim/lib/unix-socket.js";
import type { Kubelet, KubeletDeps } from "./kubelet/kubelet.js";
import { parseReplicas } from "./manifests/manifest-files.js";
import { readWorkloads } from "./manifests/read-manifests.js";
import type { Workloads } from "./manifests/workloads.js";
import { type FoundPlay, type PlayStore, type StoredPlay, playPrefix, withNames } from "./play-store.js";
import { Services } from "./services/services.js";
import { Session } from "./session.js";

export interface SupervisorDeps {
  readonly store: PlayStore;
  /** Each call gives another `playId`. */
  readonly kubeletDeps: (play: StoredPlay) => Omit<KubeletDeps, "services">;
  /** Shows what happens to the pods of one play, until the result ends it. */
  readonly show: (kubelet: Kubelet) => Disposable;
  /** Lines for people. */
  readonly report: (line: string) => void;
}

/** The kernel tells of changed files; this is for what it does not tell. */
const pollMs = 10_000;

/**
 * Keeps all plays of the store until none is left, or `signal` aborts: then the pods run on. Throws `conflict`
 * when another supervisor does that.
 */
export async function supervise(deps: SupervisorDeps, signal: AbortSignal): Promise<void> {
  const { store } = deps;
  for (;;) {
    const present = await listen(store.socketPath);
    try {
      await keepAll(deps, signal);
    } finally {
      await present.end();
    }
    // A play that was stored meanwhile has found a supervisor.
    if (signal.aborted || (await store.list(() => undefined)).length === 0) return;
  }
}

/** Tells other processes that there is a supervisor. */
async function listen(path: string): Promise<{ readonly end: () => Promise<void> }> {
  const server = createServer((socket) => {
    socket.on("error", () => undefined).destroy();
  });
  const bound: BoundSocket = await bindUnixSocket(server, path);
  return {
    end: async () => {
      await bound.unlink();
      server.close();
    },
  };
}

async function keepAll(deps: SupervisorDeps, signal: AbortSignal): Promise<void> {
  const plays = new Map<string, KeptPlay>();
  const told = new Set<string>();
  const reportOnce = (line: string): void => {
    if (!told.has(line)) deps.report(line);
    told.add(line);
  };
  const bell = new Bell();
  // Not its own log, which is in the same directory: each line would be a reason to look again.
  const watch = new DirectoryWatch(deps.store.directory, { onChange: bell.ring, prefix: playPrefix });
  const poll = setInterval(bell.ring, pollMs);
  using _ = linkAbort(signal, bell.ring);
  watch.start();
  try {
    while (!signal.aborted) {
      if (!(await keepFound(plays, deps, reportOnce, signal))) return;
      await bell.rung();
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
  deps: SupervisorDeps,
  report: (line: string) => void,
  signal: AbortSignal,
): Promise<boolean> {
  const found = await deps.store.list(report);
  for (const [id, play] of plays) {
    if (found.some((one) => one.id === id)) continue;
    plays.delete(id);
    await play[Symbol.asyncDispose]();
  }
  for (const play of found) {
    const kept = plays.get(play.id) ?? new KeptPlay(play, deps);
    plays.set(play.id, kept);
    await kept.update(play, signal);
  }
  return found.length > 0;
}

class KeptPlay implements AsyncDisposable {
  readonly #services: Services;
  readonly #session: Session;
  readonly #listening: readonly Disposable[];
  readonly #stop = new AbortController();
  #version: string | undefined;
  #lastError: string | undefined;

  constructor(
    play: StoredPlay,
    private readonly deps: SupervisorDeps,
  ) {
    const kubeletDeps = deps.kubeletDeps(play);
    this.#services = new Services([], kubeletDeps);
    this.#session = new Session({ ...kubeletDeps, services: this.#services });
    const { kubelet } = this.#session;
    this.#listening = [this.#services.attach(kubelet), deps.show(kubelet)];
  }

  /** What fails is tried again by the next call, and told once. */
  async update(play: FoundPlay, signal: AbortSignal): Promise<void> {
    if (play.version === this.#version) return;
    try {
      const workloads = await readStored(play);
      if (this.#version === undefined) await this.#services.adopt(workloads.pods, signal);
      this.#services.replace(workloads.services);
      await this.#session.update(workloads, { obsolete: "leave" }, signal);
      this.#version = play.version;
      this.#lastError = undefined;
      this.#endOf(play);
    } catch (error) {
      const line = `${play.workloads.join(", ")}: ${messageOf(error)}`;
      if (!signal.aborted && line !== this.#lastError) this.deps.report(line);
      this.#lastError = line;
    }
  }

  /** When all its pods have ended, there is nothing to keep. */
  #endOf(play: FoundPlay): void {
    this.#session.ended(this.#stop.signal).then(
      () => {
        if (this.#version !== play.version || this.#session.hasLost) return;
        const { store, report } = this.deps;
        store.remove(play.id).catch((error: unknown) => {
          report(`${play.id}: ${messageOf(error)}`);
        });
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

async function readStored(play: StoredPlay): Promise<Workloads> {
  const { schedule, localVolumes } = play;
  const replicas = parseReplicas(play.replicas);
  const workloads = await readWorkloads(play.files, { replicas, schedule, localVolumes });
  const { pods } = Services.plan(workloads);
  return withNames({ ...workloads, pods }, new Set(play.workloads));
}
