/** The helper process that connects inside of pods' network namespaces and passes the connections on. */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { Socket } from "node:net";
import { linkAbort, sleep } from "../../lib/abort.js";
import { ShimError } from "../../lib/errors.js";
import type { Logger } from "../../lib/log.js";
import { dialFailure, encodeRequest, encodeWithdrawal, parseAnswer } from "./dialer-protocol.js";

export interface DialerProcessOptions {
  /** Absolute path of the program. May throw. */
  readonly program: () => string;
  /** Timeout of a connect inside the pod. */
  readonly connectTimeoutMs: number;
  /** An answer later than that by so much means that the process hangs, and is replaced. Default 2 s. */
  readonly answerMarginMs?: number;
  readonly log: Pick<Logger, "warn" | "debug">;
}

interface Pending {
  readonly resolve: (socket: Socket) => void;
  readonly reject: (error: ShimError) => void;
}

/** How long the process may take to exit. */
const endTimeoutMs = 1_000;

/**
 * Started at the first request, and again after it has exited. It always ends with this process: its input is
 * a pipe from here, and the kernel kills it with its parent. It answers over the channel of Node.js between a
 * parent and a child, because Node.js receives file descriptors in no other way.
 */
export class DialerProcess {
  readonly #options: DialerProcessOptions;
  readonly #pending = new Map<number, Pending>();
  #child: ChildProcess | undefined;
  #lastId = 0;
  #isClosed = false;

  constructor(options: DialerProcessOptions) {
    this.#options = options;
  }

  /**
   * A connection to `port` on the loopback of the network namespace of file descriptor `namespace` of this
   * process. The descriptor must stay open until this settles, after an abort too: the process may not have
   * opened it yet, and the number could be another pod's namespace by then. Throws `unavailable` with field
   * `dialerEnded` when the process exited meanwhile (a retry starts a new one), `exhausted` when this process
   * has too many open files.
   */
  async connect(namespace: number, port: number, signal: AbortSignal): Promise<Socket> {
    const child = this.#running();
    signal.throwIfAborted();
    const id = (this.#lastId = (this.#lastId % 0x7fff_ffff) + 1);
    const timeoutMs = this.#options.connectTimeoutMs;
    let stop: (() => void) | undefined;
    try {
      return await new Promise<Socket>((resolve, reject) => {
        const onAbort = (): void => {
          const leave = (): void => {
            reject(ShimError.from(signal.reason));
          };
          const drop = (socket: Socket): void => {
            socket.destroy();
            leave();
          };
          this.#pending.set(id, { resolve: drop, reject: leave });
          child.stdin?.write(encodeWithdrawal(id));
        };
        const timer = setTimeout(
          () => {
            this.#lose(child, "it does not answer");
          },
          timeoutMs + (this.#options.answerMarginMs ?? 2_000),
        );
        stop = () => {
          clearTimeout(timer);
          link[Symbol.dispose]();
          this.#pending.delete(id);
        };
        const link = linkAbort(signal, onAbort);
        this.#pending.set(id, { resolve, reject });
        child.stdin?.write(encodeRequest({ id, namespace, port, timeoutMs }));
      });
    } finally {
      stop?.();
    }
  }

  /** Process id, while there is a process. */
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Ends the process and all requests. Connections that were passed on stay open. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const child = this.#child;
    if (child === undefined) return;
    const exited = once(child, "exit");
    child.stdin?.end();
    if (child.connected) child.disconnect();
    const ended = new AbortController();
    await Promise.race([exited, sleep(endTimeoutMs, ended.signal).catch(() => undefined)]);
    ended.abort();
    this.#lose(child, "it is closed");
  }

  #running(): ChildProcess {
    if (this.#isClosed) throw new ShimError("cancelled", "the shim is stopping");
    return (this.#child ??= this.#start(this.#options.program()));
  }

  #start(program: string): ChildProcess {
    const child = spawn(program, [], {
      cwd: "/",
      env: {},
      // A session of its own: an interrupt from the terminal must not end it before this process.
      detached: true,
      serialization: "json",
      stdio: ["pipe", "ignore", "ignore", "ipc"],
    });
    child.on("message", (message: unknown, handle?: unknown) => {
      this.#take(message, handle);
    });
    child.on("error", (error) => {
      const cause = new ShimError(
        "unsupported",
        `start "${program}": ${error.message}`,
        {},
        { cause: error },
      );
      this.#lose(child, error.message, child.pid === undefined ? cause : undefined);
    });
    child.once("exit", (code, name) => {
      this.#lose(child, `it ended with ${name ?? String(code)}`);
    });
    child.once("disconnect", () => {
      this.#lose(child, "its channel was closed");
    });
    child.stdin?.on("error", () => undefined); // The events above report its end.
    child.unref();
    child.channel?.unref();
    if (child.stdin instanceof Socket) child.stdin.unref();
    this.#options.log.debug({ pid: child.pid, program }, "pod dialer started");
    return child;
  }

  #take(message: unknown, handle: unknown): void {
    const socket = handle instanceof Socket ? handle : undefined;
    // An unhandled error event would end this process.
    socket?.on("error", () => undefined);
    const answer = parseAnswer(message, socket !== undefined);
    if (answer === undefined) this.#options.log.warn({}, "the pod dialer sent an invalid answer");
    const pending = answer === undefined ? undefined : this.#pending.get(answer.id);
    if (pending === undefined || answer === undefined) {
      socket?.destroy();
    } else if (socket !== undefined) {
      socket.allowHalfOpen = true;
      socket.setNoDelay(true);
      pending.resolve(socket);
    } else if (typeof answer.outcome === "object") {
      pending.reject(dialFailure(answer.outcome, this.#options.connectTimeoutMs));
    } else {
      // Node.js emits a connection one tick later than the messages that arrived with it.
      setImmediate(() => {
        const lost = this.#pending.get(answer.id);
        lost?.reject(new ShimError("exhausted", "the connection got lost on its way: too many open files"));
      });
    }
  }

  /** Rejects all pending requests. The next request starts a new process. */
  #lose(child: ChildProcess, why: string, failure?: ShimError): void {
    child.kill("SIGKILL");
    if (this.#child !== child) return;
    this.#child = undefined;
    if (!this.#isClosed && failure === undefined)
      this.#options.log.warn(
        { pid: child.pid, reason: why, requests: this.#pending.size },
        "the pod dialer was lost",
      );
    const error =
      failure ?? new ShimError("unavailable", `the pod dialer was lost: ${why}`, { dialerEnded: true });
    for (const { reject } of this.#pending.values()) reject(error);
    this.#pending.clear();
  }
}
