/** The OOM score of the engine's own processes, and the cgroup of `--runtime-cgroups`. */
import { open } from "node:fs/promises";
import { sleep } from "../../../lib/abort.js";
import { messageOf, ShimError } from "../../../lib/errors.js";
import type { Logger } from "../../../lib/log.js";
import { type EngineProcess, findContainerd, findDockerd, LimitedLook } from "./find-engine.js";
import { ProcFiles } from "./proc-files.js";
import { moveIntoCgroup } from "../cgroup/runtime-cgroup.js";

export interface EngineProcessesOptions {
  /** The engine's. The processes of an engine without a unix socket are left alone. */
  readonly endpoint: { readonly kind: "unix"; readonly path: string } | { readonly kind: "tcp" | "ssh" };
  /** Absolute name of a cgroup; undefined leaves the processes where they are. */
  readonly runtimeCgroups?: string | undefined;
  /** The lowest score that may be set instead of the wanted one. */
  readonly clamp?: ((wanted: number) => number) | undefined;
  readonly log: Logger;
  /** Five minutes unless given. */
  readonly intervalMs?: number;
  /** For tests. */
  readonly proc?: ProcFiles;
  readonly pidFiles?: readonly string[];
}

/** dockershim's value for dockerd: one above that of processes that are never killed. */
const engineScore = -999;
const defaultIntervalMs = 5 * 60_000;
/** Deadline of one round, which reads some hundred small files. */
const roundLimitMs = 30_000;

/**
 * Checks the engine's dockerd and containerd at once and then every few minutes, because engines restart. It
 * touches only processes that are proven to be those of the engine behind the endpoint, in this program's own
 * PID namespace: an engine in a container is under the limits of that container. New failures are logged.
 */
export class EngineProcesses {
  readonly #stop = new AbortController();
  readonly #look = new LimitedLook("look for the engine's processes", roundLimitMs);
  readonly #proc: ProcFiles;
  /** The last log line of each subject: it is repeated only when it has changed. */
  readonly #said = new Map<string, string>();
  #running: Promise<void> | undefined;

  constructor(private readonly options: EngineProcessesOptions) {
    this.#proc = options.proc ?? new ProcFiles();
  }

  start(): void {
    this.#running ??= this.#loop();
  }

  /** Ends the watch, also while a look hangs; what was set stays. */
  async stop(): Promise<void> {
    this.#stop.abort(new ShimError("cancelled", "stopped"));
    await this.#running;
  }

  /** One round. Never throws. */
  async check(): Promise<void> {
    const { endpoint, log } = this.options;
    const { signal } = this.#stop;
    if (endpoint.kind !== "unix") return;
    try {
      await this.#look.run(signal, () => this.#round(endpoint.path));
    } catch (error) {
      if (signal.aborted) return;
      this.#say("engine", messageOf(error), () => {
        log.warn({ err: messageOf(error) }, "cannot look for the engine's processes");
      });
    }
  }

  async #round(socketPath: string): Promise<void> {
    const { pidFiles, log } = this.options;
    const dockerd = await findDockerd(this.#proc, socketPath, pidFiles);
    if (dockerd === undefined) {
      this.#say("engine", "unknown", () => {
        log.info({ endpoint: socketPath }, "cannot identify the engine's processes, they are left alone");
      });
      return;
    }
    this.#say("engine", "known", () => undefined);
    await this.#lookAfter(dockerd);
    const containerd = await findContainerd(this.#proc, dockerd);
    if (containerd !== undefined) await this.#lookAfter(containerd);
  }

  async #loop(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      await this.check();
      await sleep(this.options.intervalMs ?? defaultIntervalMs, signal).catch(() => undefined);
    }
  }

  async #lookAfter(found: EngineProcess): Promise<void> {
    const { runtimeCgroups, log } = this.options;
    const { pid, command } = found;
    // A hanging look may continue long after the stop.
    if (this.#stop.signal.aborted) return;
    await this.#try(`OOM score of ${command}`, async () => {
      const score = await this.#setScore(found);
      if (score !== undefined) log.info({ pid, command, score }, "OOM score of the engine's process set");
    });
    if (runtimeCgroups === undefined) return;
    await this.#try(`cgroup of ${command}`, async () => {
      if (!(await this.#isStill(found))) return;
      if (!(await moveIntoCgroup(this.#proc, pid, runtimeCgroups))) return;
      log.info({ pid, command, cgroup: runtimeCgroups }, "engine's process moved into its cgroup");
    });
  }

  /** The score that was set; undefined when the process had that or a lower one. */
  async #setScore(found: EngineProcess): Promise<number | undefined> {
    const { clamp = (wanted: number) => wanted } = this.options;
    // An open file stays that of its process, so the process is identified after the open.
    await using file = await open(this.#proc.path(found.pid, "oom_score_adj"), "r+");
    if (!(await this.#isStill(found))) return undefined;
    const wanted = clamp(engineScore);
    const present = Number(await file.readFile("utf8"));
    if (!(present > wanted)) return undefined;
    await file.write(String(wanted), 0);
    return wanted;
  }

  async #isStill({ pid, startTime }: EngineProcess): Promise<boolean> {
    return (await this.#proc.stat(pid))?.startTime === startTime;
  }

  async #try(subject: string, work: () => Promise<void>): Promise<void> {
    try {
      await work();
      this.#said.delete(subject);
    } catch (error) {
      const err = messageOf(error);
      this.#say(subject, err.replace(/\d+/g, "N"), () => {
        this.options.log.warn({ err, subject }, "cannot adjust the engine's process");
      });
    }
  }

  #say(subject: string, what: string, say: () => void): void {
    if (this.#said.get(subject) === what) return;
    this.#said.set(subject, what);
    say();
  }
}
