/**
 * The helper process: a process of some kilobytes, which is copied in place of this one to start programs, and
 * to do what may hang (native/helper.c).
 */
import type { ChildProcess } from "node:child_process";
import { Socket } from "node:net";
import { constants } from "node:os";
import { isKind, messageOf, ShimError } from "../../lib/errors.js";
import type { Logger } from "../../lib/log.js";
import { encodeInput, encodeOrder, encodeRun, encodeVerb, programAnswers } from "./helper-protocol.js";
import type { ProgramAnswer } from "./helper-protocol.js";
import { ProcessLife } from "./process-life.js";
import {
  startAsChild,
  type ProgramListener,
  type ProgramRequest,
  type StartedProgram,
} from "./start-program.js";

export interface HelperProcessOptions {
  /** Absolute path of the program. May throw. */
  readonly program: () => string;
  readonly log: Pick<Logger, "warn" | "debug">;
  /** Milliseconds until a verb tries a helper again that could not be used; one minute unless given. */
  readonly retryMs?: number;
}

interface Run {
  readonly kind: "program" | "verb";
  readonly program: string;
  readonly listener: ProgramListener;
  failed(error: ShimError): void;
}

/**
 * After a fault that forbids the helper: what is out of memory now may be well later. Only verbs try again, which
 * have nothing in its place; a program would fail if the helper is forbidden for ever.
 */
const usualRetryMs = 60_000;

/**
 * Half of what the helper has room for: those that hang, or that cannot be killed, must not keep the others
 * from being started. Further programs are children of this process; verbs have the rest.
 */
const mostPrograms = 256;

/**
 * The programs that it has started go on when it ends, as they would without it; processes with a verb are
 * killed. Where it cannot work, programs are children of this process.
 */
export class HelperProcess {
  readonly #life: ProcessLife<Run>;
  readonly #log: Pick<Logger, "warn">;
  readonly #retryMs: number;
  /** A helper has answered: one that is lost now was lost by a fault, and the next one works again. */
  #isProven = false;
  #unusable: ShimError | undefined;
  /** When a verb tries an unusable helper again; milliseconds of `performance.now()`. */
  #retryAtMs = -Infinity;
  #programs = 0;

  constructor({ program, log, retryMs = usualRetryMs }: HelperProcessOptions) {
    this.#log = log;
    this.#retryMs = retryMs;
    this.#life = new ProcessLife<Run>({
      name: "helper process",
      lostMessage: "the helper process was lost",
      program,
      // Programs inherit the working directory.
      spawn: { stdio: ["pipe", "pipe", "ignore"] },
      opened: (child, lose) => {
        this.#read(child, lose);
      },
      lost: (error) => {
        // Something forbids what the helper does, such as a profile of seccomp.
        if (!this.#isProven || error.kind === "unsupported") this.#doWithout(error);
      },
      log,
    });
  }

  /** A lost helper fails all runs as `Waiting` says. */
  readonly start = (request: ProgramRequest, listener: ProgramListener): StartedProgram => {
    const isUsable = this.#unusable === undefined && this.#programs < mostPrograms;
    const child = isUsable ? this.#running() : undefined;
    if (child === undefined) return startAsChild(request, listener);
    return this.#run(child, "program", (id) => encodeRun(id, request), request.program, listener);
  };

  /**
   * Performs `program`, a verb of the helper, in a process of its own, without input and environment. Throws
   * `unsupported` without a helper.
   */
  readonly startVerb = ({ program, words }: ProgramRequest, listener: ProgramListener): StartedProgram => {
    const child = performance.now() >= this.#retryAtMs ? this.#running() : undefined;
    if (child === undefined)
      throw this.#unusable ?? new ShimError("unsupported", "there is no helper process");
    return this.#run(child, "verb", (id) => encodeVerb(id, [program, ...words]), program, listener);
  };

  get pid(): number | undefined {
    return this.#life.pid;
  }

  close(): Promise<void> {
    this.#life.close();
    return Promise.resolve();
  }

  #running(): ChildProcess | undefined {
    try {
      const child = this.#life.running();
      return child.pid === undefined ? undefined : child;
    } catch (error) {
      if (isKind(error, "cancelled")) throw error;
      this.#doWithout(ShimError.from(error));
      return undefined;
    }
  }

  #run(
    child: ChildProcess,
    kind: Run["kind"],
    encode: (id: number) => Buffer,
    program: string,
    listener: ProgramListener,
  ): StartedProgram {
    const id = this.#life.nextId();
    const request = encode(id);
    if (kind === "program") this.#programs += 1;
    this.#life.waiting.set(id, {
      kind,
      program,
      listener,
      failed: (error) => {
        if (kind === "program") this.#programs -= 1;
        listener.failed(error);
      },
    });
    this.#holdWhileAwaited();
    // Most programs get their input at once: both are one write, which wakes the helper once.
    child.stdin?.cork();
    child.stdin?.write(request);
    process.nextTick(() => child.stdin?.uncork());
    const send = (bytes: () => Buffer): void => {
      if (this.#life.child === child && this.#life.waiting.has(id)) child.stdin?.write(bytes());
    };
    return {
      feed: (input) => {
        send(() => encodeInput(id, input));
      },
      kill: () => {
        send(() => encodeOrder(id, "kill"));
      },
      leave: () => {
        send(() => encodeOrder(id, "leave"));
        this.#forget(id);
      },
    };
  }

  #read(child: ChildProcess, lose: (reason: string) => void): void {
    const reader = programAnswers();
    child.stdout?.on("data", (chunk: Buffer) => {
      if (this.#life.child !== child) return;
      try {
        for (const answer of reader.take(chunk)) this.#take(answer);
      } catch (error) {
        lose(messageOf(error));
      }
    });
  }

  #doWithout(error: ShimError): void {
    if (this.#unusable === undefined)
      this.#log.warn({ err: messageOf(error) }, "cannot use the helper process");
    this.#retryAtMs = performance.now() + this.#retryMs;
    this.#unusable = new ShimError("unsupported", messageOf(error), {}, { cause: error });
  }

  #take(answer: ProgramAnswer): void {
    this.#isProven = true;
    this.#unusable = undefined;
    const run = this.#life.waiting.get(answer.id);
    if (run === undefined) return;
    const { listener, program } = run;
    switch (answer.kind) {
      case "started":
        listener.started(answer.pid, answer.stat);
        return;
      case "stdout":
      case "stderr":
        listener.output(answer.kind, answer.bytes);
        return;
      case "ended":
        listener.ended(answer.end);
        return;
      case "closed":
        this.#forget(answer.id);
        listener.closed();
        return;
      case "failed":
        this.#forget(answer.id);
        listener.failed(startFailure(program, answer.errno));
        return;
    }
  }

  #forget(id: number): void {
    if (this.#life.waiting.get(id)?.kind === "program") this.#programs -= 1;
    this.#life.waiting.delete(id);
    this.#holdWhileAwaited();
  }

  /** Only runs that are waited for keep this process alive. */
  #holdWhileAwaited(): void {
    const { child, waiting } = this.#life;
    const change = waiting.size > 0 ? "ref" : "unref";
    child?.[change]();
    if (child?.stdout instanceof Socket) child.stdout[change]();
  }
}

/** As Node.js has it for a child. */
function startFailure(program: string, errno: number): Error {
  // Libuv has no name for ENOEXEC.
  const [code = `error ${errno}`] =
    Object.entries(constants.errno).find(([, number]) => number === errno) ?? [];
  return Object.assign(new Error(`spawn ${program} ${code}`), { code, errno: -errno, syscall: "spawn" });
}
