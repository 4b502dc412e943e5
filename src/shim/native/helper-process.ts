/** The helper process that starts programs: a process of some kilobytes is copied in place of this one. */
import { spawn, type ChildProcess } from "node:child_process";
import { Socket } from "node:net";
import { constants } from "node:os";
import { messageOf, ShimError } from "../../lib/errors.js";
import type { Logger } from "../../lib/log.js";
import { encodeInput, encodeOrder, encodeRun, ProgramAnswerReader } from "./helper-protocol.js";
import type { ProgramAnswer } from "./helper-protocol.js";
import {
  startAsChild,
  type ProgramListener,
  type ProgramRequest,
  type StartedProgram,
} from "./start-program.js";

export interface ProgramsProcessOptions {
  /** Absolute path of the program. */
  readonly program: string;
  readonly log: Pick<Logger, "warn" | "debug">;
}

interface Run {
  readonly program: string;
  readonly listener: ProgramListener;
}

/**
 * Half of what the helper has room for: those that hang, or that cannot be killed, must not keep the others
 * from being started. Further ones are children of this process.
 */
const mostRuns = 256;

/**
 * Started at the first program, and anew when it was lost. It ends with this process, however that ends; the
 * programs that it has started go on, as they would without it. Where it cannot work, programs are children
 * of this process.
 */
export class ProgramsProcess {
  readonly #options: ProgramsProcessOptions;
  readonly #runs = new Map<number, Run>();
  #child: ChildProcess | undefined;
  #lastId = 0;
  #isClosed = false;
  /** A helper has answered: one that is lost now was lost by a fault, and the next one works again. */
  #isProven = false;
  #isUnusable = false;

  constructor(options: ProgramsProcessOptions) {
    this.#options = options;
  }

  /** A `StartProgram`. A lost helper fails all runs `unavailable`, with the field `helperLost`. */
  start(request: ProgramRequest, listener: ProgramListener): StartedProgram {
    const child = this.#runs.size < mostRuns ? this.#running() : undefined;
    if (child === undefined) return startAsChild(request, listener);
    const id = (this.#lastId = (this.#lastId % 0x7fff_ffff) + 1);
    const encoded = encodeRun(id, request);
    this.#runs.set(id, { program: request.program, listener });
    this.#holdWhileNeeded(child);
    child.stdin?.write(encoded);
    const send = (bytes: () => Buffer): void => {
      if (this.#child === child && this.#runs.has(id)) child.stdin?.write(bytes());
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

  /** Process id, while there is a process. */
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** What was started goes on. */
  close(): Promise<void> {
    this.#isClosed = true;
    if (this.#child !== undefined) this.#lose(this.#child, "it is closed");
    return Promise.resolve();
  }

  #running(): ChildProcess | undefined {
    if (this.#isClosed) throw stopping();
    if (this.#isUnusable) return undefined;
    return (this.#child ??= this.#start());
  }

  #start(): ChildProcess | undefined {
    const { program, log } = this.#options;
    let child: ChildProcess;
    try {
      // Programs inherit the working directory. A session of its own: an interrupt from the terminal does not
      // end it before this process is done.
      child = spawn(program, [], { env: {}, detached: true, stdio: ["pipe", "pipe", "ignore"] });
    } catch (error) {
      this.#doWithout(error);
      return undefined;
    }
    const { pid } = child;
    if (pid === undefined) {
      // The event has the reason, and comes too late for the program that is to be started.
      child.once("error", (error) => {
        this.#doWithout(error);
      });
      this.#isUnusable = true;
      return undefined;
    }
    const reader = new ProgramAnswerReader();
    child.stdout?.on("data", (chunk: Buffer) => {
      if (this.#child !== child) return;
      try {
        for (const answer of reader.take(chunk)) this.#take(answer);
      } catch (error) {
        this.#lose(child, messageOf(error));
      }
    });
    child.on("error", (error) => {
      this.#lose(child, error.message);
    });
    child.once("exit", (code, name) => {
      this.#lose(child, `it ended with ${name ?? String(code)}`);
    });
    // Their ends are told by the events above.
    child.stdin?.on("error", () => undefined);
    child.stdout?.on("error", () => undefined);
    if (child.stdin instanceof Socket) child.stdin.unref();
    log.debug({ pid, program }, "helper that starts programs started");
    return child;
  }

  #doWithout(error: unknown): void {
    this.#isUnusable = true;
    this.#options.log.warn(
      { program: this.#options.program, err: messageOf(error) },
      "cannot use the helper that starts programs",
    );
  }

  #take(answer: ProgramAnswer): void {
    this.#isProven = true;
    const run = this.#runs.get(answer.id);
    if (run === undefined) return;
    const { listener, program } = run;
    switch (answer.kind) {
      case "started":
        listener.started(answer.pid);
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
    this.#runs.delete(id);
    if (this.#child !== undefined) this.#holdWhileNeeded(this.#child);
  }

  /** Only runs that are waited for keep this process alive. */
  #holdWhileNeeded(child: ChildProcess): void {
    const change = this.#runs.size > 0 ? "ref" : "unref";
    child[change]();
    if (child.stdout instanceof Socket) child.stdout[change]();
  }

  /** Fails all runs; the next one starts another helper. */
  #lose(child: ChildProcess, reason: string): void {
    child.kill("SIGKILL");
    child.stdout?.destroy();
    if (this.#child !== child) return;
    this.#child = undefined;
    const lost = [...this.#runs.values()];
    this.#runs.clear();
    const { log } = this.#options;
    if (!this.#isClosed) {
      log.warn({ pid: child.pid, reason, programs: lost.length }, "the helper that starts programs was lost");
      // Something forbids what the helper does, such as a profile of seccomp.
      if (!this.#isProven) this.#doWithout(reason);
    }
    const error = this.#isClosed ? stopping() : lostError(reason);
    for (const { listener } of lost) listener.failed(error);
  }
}

/** Whether `error` says nothing about the program, but that its helper was lost. */
export function isHelperLost(error: unknown): boolean {
  return error instanceof ShimError && error.fields["helperLost"] === true;
}

function stopping(): ShimError {
  return new ShimError("cancelled", "the shim is stopping");
}

function lostError(reason: string): ShimError {
  const text = `the helper that starts programs was lost: ${reason}`;
  return new ShimError("unavailable", text, { helperLost: true });
}

/** As Node.js has it for a child. */
function startFailure(program: string, errno: number): Error {
  // Libuv has no name for ENOEXEC.
  const [code = `error ${errno}`] =
    Object.entries(constants.errno).find(([, number]) => number === errno) ?? [];
  return Object.assign(new Error(`spawn ${program} ${code}`), { code, errno: -errno, syscall: "spawn" });
}
