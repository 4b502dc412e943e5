/**
 * The process that works on observed calls. Its CPU time, memory, faults and end are not the relay's: it is
 * started again, and while it does not keep up, calls are dropped and counted.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { setPriority } from "node:os";
import type { Logger } from "../shim/lib/log.js";
import type { ObservedCall } from "./call-observer.js";
import { encodeCall, type Unobserved } from "./call-pipe.js";

export interface ObserverProcessOptions {
  /** Program and arguments. Calls come on its standard input, whose end tells it to end. */
  readonly command: readonly [program: string, ...args: string[]];
  readonly log: Logger;
  /** Waits before a start after a failure: the first, and the longest. */
  readonly firstDelayMs?: number;
  readonly longestDelayMs?: number;
  /** Told when the process ended and is not started again: it said that its work is done. */
  readonly onDone?: () => void;
}

/** Calls that wait in the pipe. */
const largestBacklogBytes = 32 * 1024 * 1024;
/** A process that lived so long has not failed at its start. */
const healthyMs = 60_000;
const observerNiceness = 10;
/** Its exit code when its work is done. */
export const doneExitCode = 3;

export class ObserverProcess {
  #child: ChildProcess | undefined;
  #timer: NodeJS.Timeout | undefined;
  #delayMs: number;
  #stopped = false;
  #starts = 0;
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

  start(): void {
    const { command, log } = this.options;
    const [program, ...args] = command;
    const startedMs = performance.now();
    const child = spawn(program, args, { stdio: ["pipe", "inherit", "inherit"] });
    this.#child = child;
    this.#starts += 1;
    // What it does can wait for the relay, and for the runtime.
    if (child.pid !== undefined) setPriority(child.pid, observerNiceness);
    // EPIPE of a process that died; 'close' follows.
    child.stdin.on("error", () => undefined);
    this.#ended = new Promise((resolve) => {
      let told = false;
      const onEnd = (reason: string, code: number | null): void => {
        if (told) return;
        told = true;
        this.#child = undefined;
        resolve();
        if (this.#stopped) return;
        if (code === doneExitCode) {
          this.options.onDone?.();
          return;
        }
        log.error({ reason }, "the observer process ended, the relay goes on without it");
        if (performance.now() - startedMs > healthyMs) this.#delayMs = this.options.firstDelayMs ?? 1000;
        this.#timer = setTimeout(() => {
          this.start();
        }, this.#delayMs);
        this.#delayMs = Math.min(this.#delayMs * 2, this.options.longestDelayMs ?? 60_000);
      };
      child.once("error", (error) => {
        onEnd(error.message, null);
      });
      child.once("close", (code, signal) => {
        onEnd(signal ?? `exit code ${String(code)}`, code);
      });
    });
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

  /** Lets it work on what it has, for `limitMs`, and ends it then. */
  async stop(limitMs: number): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    const child = this.#child;
    if (child === undefined) return;
    child.stdin?.end();
    const timer = setTimeout(() => child.kill("SIGKILL"), limitMs);
    await this.#ended;
    clearTimeout(timer);
  }
}
