/** A process beside the relay, which is started again. Calls are dropped while it does not keep up. */
import { spawn, type ChildProcess } from "node:child_process";
import { setPriority } from "node:os";
import { messageOf } from "../../lib/errors.js";
import type { Logger } from "../../lib/log.js";
import type { ObservedCall } from "./call-observer.js";
import { encodeCall, type Unobserved } from "./call-pipe.js";

export interface ObserverProcessOptions {
  /** For the log, as `observer`. */
  readonly name: string;
  /** 0 when not given. */
  readonly niceness?: number;
  /** Program and arguments. Calls come on its standard input, whose end is its signal to end. */
  readonly command: readonly [program: string, ...args: string[]];
  readonly log: Logger;
  /** The first wait before a start after a failure. */
  readonly firstDelayMs?: number;
  /** Told when the process ended and is not started again: it said that its work is done. */
  readonly onDone?: () => void;
}

const longestDelayMs = 60_000;
/** Calls that wait in the pipe. */
const largestBacklogBytes = 32 * 1024 * 1024;
/** A process that lived so long has not failed at its start. */
const healthyMs = 60_000;
/** Its exit code when its work is done. */
export const doneExitCode = 3;

export class ObserverProcess {
  #child: ChildProcess | undefined;
  #timer: NodeJS.Timeout | undefined;
  #delayMs: number;
  #stopped = false;
  #starts = 0;
  #hasSucceeded = false;
  #unobserved = { dropped: 0, givenUp: 0 };
  #ended: Promise<void> = Promise.resolve();

  constructor(private readonly options: ObserverProcessOptions) {
    this.#delayMs = options.firstDelayMs ?? 1000;
  }

  get counts(): Unobserved & { readonly starts: number } {
    return { ...this.#unobserved, starts: this.#starts };
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Never throws: a process that cannot be started is tried again. */
  start(): void {
    const { log, name } = this.options;
    const startedMs = performance.now();
    this.#starts += 1;
    this.#hasSucceeded = false;
    this.#ended = new Promise((resolve) => {
      let hasEnded = false;
      const onEnd = (reason: string, code: number | null): void => {
        if (hasEnded) return;
        hasEnded = true;
        this.#child = undefined;
        this.#hasSucceeded = code === 0 || code === doneExitCode;
        resolve();
        if (this.#stopped) return;
        if (code === doneExitCode) {
          this.options.onDone?.();
          return;
        }
        log.error({ reason }, `the ${name} process ended, the relay goes on without it`);
        if (performance.now() - startedMs > healthyMs) this.#delayMs = this.options.firstDelayMs ?? 1000;
        this.#timer = setTimeout(() => this.start(), this.#delayMs);
        this.#delayMs = Math.min(this.#delayMs * 2, longestDelayMs);
      };
      try {
        this.#spawn(onEnd);
      } catch (error) {
        // No memory or no file descriptors for a process.
        this.#child?.kill("SIGKILL");
        onEnd(messageOf(error), null);
      }
    });
  }

  #spawn(onEnd: (reason: string, code: number | null) => void): void {
    const [program, ...args] = this.options.command;
    const child = spawn(program, args, { stdio: ["pipe", "inherit", "inherit"] });
    this.#child = child;
    child.once("error", (error) => onEnd(error.message, null));
    child.once("close", (code, signal) => onEnd(signal ?? `exit code ${String(code)}`, code));
    // EPIPE of a process that died; 'close' follows.
    child.stdin.on("error", () => undefined);
    const { niceness } = this.options;
    if (child.pid !== undefined && niceness !== undefined) setPriority(child.pid, niceness);
  }

  offer(call: ObservedCall): void {
    const pipe = this.#child?.stdin;
    if (this.#stopped || pipe?.writable !== true || pipe.writableLength > largestBacklogBytes) {
      this.#unobserved.dropped += 1;
      return;
    }
    pipe.write(encodeCall(call, this.#unobserved));
  }

  connectionGivenUp(): void {
    this.#unobserved.givenUp += 1;
  }

  /** Lets it work on what it has, for `limitMs`, and ends it then. Whether it has ended with success. */
  async stop(limitMs: number): Promise<boolean> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    const child = this.#child;
    if (child === undefined) return this.#hasSucceeded;
    child.stdin?.end();
    const timer = setTimeout(() => child.kill("SIGKILL"), limitMs);
    await this.#ended;
    clearTimeout(timer);
    return this.#hasSucceeded;
  }
}
