/** The helper process that connects inside of pods' network namespaces and passes the connections on. */
import { once } from "node:events";
import { Socket } from "node:net";
import { linkAbort, sleep } from "../../lib/abort.js";
import { ShimError } from "../../lib/errors.js";
import type { Logger } from "../../lib/log.js";
import { ProcessLife } from "../native/process-life.js";
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
  readonly failed: (error: ShimError) => void;
}

/** How long the process may take to exit. */
const endTimeoutMs = 1_000;

/** It answers over the channel of Node.js between parent and child, the only way to get descriptors. */
export class DialerProcess {
  readonly #options: DialerProcessOptions;
  readonly #life: ProcessLife<Pending>;

  constructor(options: DialerProcessOptions) {
    this.#options = options;
    this.#life = new ProcessLife<Pending>({
      name: "pod dialer",
      lostMessage: "the pod dialer was lost",
      program: options.program,
      spawn: { cwd: "/", serialization: "json", stdio: ["pipe", "ignore", "ignore", "ipc"] },
      opened: (child, lose) => {
        child.on("message", (message: unknown, handle?: unknown) => {
          this.#take(message, handle);
        });
        child.once("disconnect", () => {
          lose("its channel was closed");
        });
        child.channel?.unref();
      },
      log: options.log,
    });
  }

  /**
   * A connection to `port` on the loopback of the network namespace of file descriptor `namespace` of this
   * process. The descriptor must stay open until this settles, after an abort too: the process may not have
   * opened it yet, and the number could be another pod's namespace by then. Throws as `Waiting` says when the
   * process is lost meanwhile, `exhausted` when this process has too many open files.
   */
  async connect(namespace: number, port: number, signal: AbortSignal): Promise<Socket> {
    const child = this.#life.running();
    signal.throwIfAborted();
    const id = this.#life.nextId();
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
          this.#life.waiting.set(id, { resolve: drop, failed: leave });
          child.stdin?.write(encodeWithdrawal(id));
        };
        const timer = setTimeout(
          () => {
            this.#life.lose(child, "it does not answer");
          },
          timeoutMs + (this.#options.answerMarginMs ?? 2_000),
        );
        stop = () => {
          clearTimeout(timer);
          link[Symbol.dispose]();
          this.#life.waiting.delete(id);
        };
        const link = linkAbort(signal, onAbort);
        this.#life.waiting.set(id, { resolve, failed: reject });
        child.stdin?.write(encodeRequest({ id, namespace, port, timeoutMs }));
      });
    } finally {
      stop?.();
    }
  }

  /** Process id, while there is a process. */
  get pid(): number | undefined {
    return this.#life.pid;
  }

  /** Ends the process and all requests. Connections that were passed on stay open. */
  async close(): Promise<void> {
    const { child } = this.#life;
    if (child?.pid !== undefined) {
      const exited = once(child, "exit");
      this.#life.stopStarting();
      child.stdin?.end();
      if (child.connected) child.disconnect();
      const ended = new AbortController();
      await Promise.race([exited, sleep(endTimeoutMs, ended.signal).catch(() => undefined)]);
      ended.abort();
    }
    this.#life.close();
  }

  #take(message: unknown, handle: unknown): void {
    const socket = handle instanceof Socket ? handle : undefined;
    // An unhandled error event would end this process.
    socket?.on("error", () => undefined);
    const answer = parseAnswer(message, socket !== undefined);
    if (answer === undefined) this.#options.log.warn({}, "the pod dialer sent an invalid answer");
    const pending = answer === undefined ? undefined : this.#life.waiting.get(answer.id);
    if (pending === undefined || answer === undefined) {
      socket?.destroy();
    } else if (socket !== undefined) {
      socket.allowHalfOpen = true;
      socket.setNoDelay(true);
      pending.resolve(socket);
    } else if (typeof answer.outcome === "object") {
      pending.failed(dialFailure(answer.outcome, this.#options.connectTimeoutMs));
    } else {
      // Node.js emits a connection one tick later than the messages that arrived with it.
      setImmediate(() => {
        const lost = this.#life.waiting.get(answer.id);
        lost?.failed(new ShimError("exhausted", "the connection got lost on its way: too many open files"));
      });
    }
  }
}
