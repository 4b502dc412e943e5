/** The helper process that looks at paths of the node, in a process of its own for each request. */
import { spawn, type ChildProcess } from "node:child_process";
import { Socket } from "node:net";
import { messageOf, ShimError } from "../../../lib/errors.js";
import type { Logger } from "../../../lib/log.js";
import { encodePathRequest, PathAnswerReader, systemErrorText } from "./host-paths-protocol.js";
import type { PathAnswer, PathEntry } from "./host-paths-protocol.js";

export interface HostPathsProcessOptions {
  /** Absolute path of the program. May throw. */
  readonly program: () => string;
  /** Directory below which directories of devices may be; `/dev` by default. */
  readonly deviceRoot?: string;
  readonly log: Pick<Logger, "warn" | "debug">;
}

/** Receives the answers to one request. */
export interface PathListener {
  answered(answer: PathAnswer): void;
  /** The process of the request is gone, with or without answers to all entries. No call follows. */
  ended(): void;
  /** There is no process for the request, or no helper any more. No call follows. */
  lost(reason: string): void;
}

/** Started at the first request, and anew when it has ended. It ends with this process, however that ends. */
export class HostPathsProcess {
  readonly #options: HostPathsProcessOptions;
  readonly #listeners = new Map<number, PathListener>();
  #child: ChildProcess | undefined;
  #lastId = 0;
  #isClosed = false;

  constructor(options: HostPathsProcessOptions) {
    this.#options = options;
  }

  /** Sends a request of at most `requestLimitBytes`; throws without a helper. Returns what kills it. */
  ask(entries: readonly PathEntry[], listener: PathListener): () => void {
    const child = this.#running();
    const id = (this.#lastId = (this.#lastId % 0x7fff_ffff) + 1);
    this.#listeners.set(id, listener);
    child.stdin?.write(encodePathRequest(id, entries));
    return () => {
      if (this.#listeners.get(id) === listener) child.stdin?.write(encodePathRequest(id, []));
    };
  }

  /** Process id, while there is a process. */
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** The kernel kills the processes that the helper has forked. Hanging ones are not waited for. */
  close(): Promise<void> {
    this.#isClosed = true;
    if (this.#child !== undefined) this.#lose(this.#child, "it is closed");
    return Promise.resolve();
  }

  #running(): ChildProcess {
    if (this.#isClosed) throw new ShimError("cancelled", "the shim is stopping");
    if (this.#child !== undefined) return this.#child;
    const program = this.#options.program();
    try {
      return (this.#child = this.#start(program));
    } catch (error) {
      throw new ShimError("unavailable", `start "${program}": ${messageOf(error)}`, {}, { cause: error });
    }
  }

  #start(program: string): ChildProcess {
    const child: ChildProcess = spawn(program, [this.#options.deviceRoot ?? "/dev"], {
      // Nothing of this process's directory and environment; a session of its own, so that an interrupt from
      // the terminal does not end it before this process is done.
      cwd: "/",
      env: {},
      detached: true,
      stdio: ["pipe", "pipe", "ignore"],
    });
    const reader = new PathAnswerReader();
    child.stdout?.on("data", (chunk: Buffer) => {
      try {
        for (const answer of reader.take(chunk)) this.#take(answer);
      } catch (error) {
        this.#lose(child, messageOf(error));
      }
    });
    child.on("error", (error) => {
      this.#lose(child, `start "${program}": ${error.message}`);
    });
    child.once("exit", (code, name) => {
      this.#lose(child, `it ended with ${name ?? String(code)}`);
    });
    // Their ends are told by the events above.
    child.stdin?.on("error", () => undefined);
    child.stdout?.on("error", () => undefined);
    child.unref();
    for (const stream of [child.stdin, child.stdout]) if (stream instanceof Socket) stream.unref();
    const { pid } = child;
    if (pid !== undefined) this.#options.log.debug({ pid, program }, "helper for paths of the node started");
    return child;
  }

  #take(answer: PathAnswer): void {
    const listener = this.#listeners.get(answer.id);
    if (answer.outcome !== "ended" && answer.outcome !== "notStarted") {
      listener?.answered(answer);
      return;
    }
    this.#listeners.delete(answer.id);
    if (answer.outcome === "notStarted") listener?.lost(`fork: ${systemErrorText(answer.errno)}`);
    else listener?.ended();
  }

  /** Fails all pending requests; the next request starts another helper. */
  #lose(child: ChildProcess, reason: string): void {
    child.kill("SIGKILL");
    // A process that hangs keeps the other end open.
    child.stdout?.destroy();
    if (this.#child !== child) return;
    this.#child = undefined;
    const lost = [...this.#listeners.values()];
    this.#listeners.clear();
    // When it could not be started, the callers report why.
    if (!this.#isClosed && child.pid !== undefined)
      this.#options.log.warn(
        { pid: child.pid, reason, requests: lost.length },
        "the helper for paths of the node was lost",
      );
    for (const listener of lost) listener.lost(reason);
  }
}
