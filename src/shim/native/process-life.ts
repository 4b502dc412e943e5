/** The life of a process that serves requests of this one, and of what waits for its answers. */
import { spawn, type ChildProcess, type SpawnOptions } from "node:child_process";
import { Socket } from "node:net";
import { messageOf, ShimError } from "../../lib/errors.js";
import type { Logger } from "../../lib/log.js";

export interface ProcessLifeOptions {
  /** In messages: "pod dialer". */
  readonly name: string;
  /** Logged, and the beginning of errors, when the process has ended by a fault. */
  readonly lostMessage: string;
  /** Absolute path of the program. May throw. */
  readonly program: () => string;
  readonly spawn: SpawnOptions;
  /** Reads what the process says; an error that it throws means that the process is lost. */
  readonly opened: (child: ChildProcess, lose: (reason: string) => void) => void;
  /** It was lost by a fault, before all that waits is told. */
  readonly lost?: (error: ShimError) => void;
  readonly log: Pick<Logger, "warn" | "debug">;
}

/** Waits for answers to one request. */
export interface Waiting {
  /**
   * `unavailable` with the field `helperLost` when the process was lost (the next request starts another one),
   * `unsupported` when it cannot be started, `cancelled` when this program stops.
   */
  failed(error: ShimError): void;
}

/**
 * Started at the first request, and anew when it was lost. It ends with this process, however that ends: its
 * input is a pipe from here, and the program asks the kernel to be killed with its parent.
 */
export class ProcessLife<W extends Waiting> {
  readonly #options: ProcessLifeOptions;
  /** By the ids of the requests. */
  readonly waiting = new Map<number, W>();
  #child: ChildProcess | undefined;
  #lastId = 0;
  #isClosed = false;

  constructor(options: ProcessLifeOptions) {
    this.#options = options;
  }

  /** Process id, while there is a process. */
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Undefined while it does not run. */
  get child(): ChildProcess | undefined {
    return this.#child;
  }

  /** The process, started when there is none. It has no `pid` when it cannot be started: its end tells why. */
  running(): ChildProcess {
    if (this.#isClosed) throw new ShimError("cancelled", "the shim is stopping");
    return (this.#child ??= this.#start(this.#options.program()));
  }

  nextId(): number {
    return (this.#lastId = (this.#lastId % 0x7fff_ffff) + 1);
  }

  /** Ends the process; what waits fails as `cancelled`. Nothing is started any more. */
  close(): void {
    this.stopStarting();
    if (this.#child !== undefined) this.lose(this.#child, "it is closed");
  }

  stopStarting(): void {
    this.#isClosed = true;
  }

  /** Fails all that waits; the next request starts another process. */
  lose(child: ChildProcess, reason: string, failure?: ShimError): void {
    child.kill("SIGKILL");
    // A process that hangs, or what it has started, keeps the other end open.
    child.stdout?.destroy();
    if (this.#child !== child) return;
    this.#child = undefined;
    const lost = [...this.waiting.values()];
    this.waiting.clear();
    const { lostMessage, log } = this.#options;
    const error = this.#isClosed
      ? new ShimError("cancelled", "the shim is stopping")
      : (failure ?? new ShimError("unavailable", `${lostMessage}: ${reason}`, { helperLost: true }));
    if (!this.#isClosed) {
      if (failure === undefined) log.warn({ pid: child.pid, reason, requests: lost.length }, lostMessage);
      this.#options.lost?.(error);
    }
    for (const waiting of lost) waiting.failed(error);
  }

  #start(program: string): ChildProcess {
    const { name, log } = this.#options;
    const child = this.#spawn(program);
    this.#options.opened(child, (reason) => {
      this.lose(child, reason);
    });
    child.on("error", (error) => {
      this.lose(child, error.message, child.pid === undefined ? cannotStart(program, error) : undefined);
    });
    child.once("exit", (code, signal) => {
      this.lose(child, `it ended with ${signal ?? String(code)}`);
    });
    // Their ends are told by the events above.
    child.stdin?.on("error", () => undefined);
    child.stdout?.on("error", () => undefined);
    child.unref();
    for (const stream of [child.stdin, child.stdout]) if (stream instanceof Socket) stream.unref();
    const { pid } = child;
    if (pid !== undefined) log.debug({ pid, program }, `${name} started`);
    return child;
  }

  #spawn(program: string): ChildProcess {
    try {
      // A session of its own: an interrupt from the terminal does not end it before this process is done.
      return spawn(program, [], { env: {}, detached: true, ...this.#options.spawn });
    } catch (error) {
      throw cannotStart(program, error);
    }
  }
}

/** Whether `error` says nothing about the request, but that the process was lost. */
export function isHelperLost(error: unknown): boolean {
  return error instanceof ShimError && error.fields["helperLost"] === true;
}

function cannotStart(program: string, error: unknown): ShimError {
  return new ShimError("unsupported", `start "${program}": ${messageOf(error)}`, {}, { cause: error });
}
