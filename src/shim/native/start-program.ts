/** How programs of the node are started: CNI plugins, iptables and the like. */
import { spawn } from "node:child_process";
import { hasCode } from "../../lib/files/file-errors.js";
import { KnownPrograms } from "./known-programs.js";

export interface ProgramRequest {
  /** A path, or a name that is looked for in PATH of `environment`. */
  readonly program: string;
  readonly words: readonly string[];
  /** All of it; nothing of this process is added. */
  readonly environment: NodeJS.ProcessEnv;
}

/** No call comes before the start has returned. */
export interface ProgramListener {
  /**
   * There is a process, the leader of a process group of its own, which has no input and is or becomes the program.
   * `stat` is its /proc/PID/stat, where what started it has read that.
   */
  started(pid: number, stat?: string): void;
  output(stream: "stdout" | "stderr", chunk: Buffer): void;
  /** It has ended; one that was killed has left no zombie. Its children may still write. */
  ended(end: ProgramEnd): void;
  /** It has ended, and its pipes are closed. No call follows. */
  closed(): void;
  /**
   * The process could not become the program: an error with a `code` like ENOENT; or it is out of reach. No call
   * follows.
   */
  failed(error: Error): void;
}

export interface ProgramEnd {
  /** Undefined when a signal ended it. */
  readonly exitCode: number | undefined;
  readonly signalName: string | undefined;
}

/** Calls without a program that could take them do nothing. */
export interface StartedProgram {
  /** Gives the program all its input and closes it. To be called once. */
  feed(input: string): void;
  /** Kills the process group, unless the program has ended. */
  kill(): void;
  /** Closes the pipes: nothing of what comes is wanted. */
  leave(): void;
}

export type StartProgram = (request: ProgramRequest, listener: ProgramListener) => StartedProgram;

const programs = new KnownPrograms();

/**
 * As a child of this process. The start blocks this process for milliseconds when it has much memory. Throws, for a
 * path, what `KnownPrograms` does.
 */
export const startAsChild: StartProgram = ({ program, words, environment }, listener) => {
  if (program.includes("/")) programs.require(program);
  // Detached: the leader of a process group of its own.
  const child = spawn(program, words, {
    env: environment,
    detached: true,
    stdio: ["pipe", "pipe", "pipe"],
  });
  const { pid } = child;
  // A program that could not be started has no pid: its error event has the reason.
  if (pid !== undefined)
    process.nextTick(() => {
      listener.started(pid);
    });
  child.once("error", (error) => {
    listener.failed(error);
  });
  child.once("exit", (code, signal) => {
    listener.ended({ exitCode: code ?? undefined, signalName: signal ?? undefined });
  });
  child.once("close", () => {
    if (pid !== undefined) listener.closed();
  });
  child.stdout.on("data", (chunk: Buffer) => {
    listener.output("stdout", chunk);
  });
  child.stderr.on("data", (chunk: Buffer) => {
    listener.output("stderr", chunk);
  });
  // A program may end without reading its input: its end says more than EPIPE.
  child.stdin.on("error", () => undefined);
  return {
    feed: (input) => child.stdin.end(input),
    kill: () => {
      if (pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
      try {
        process.kill(-pid, "SIGKILL");
      } catch (error) {
        // ESRCH: the group has ended. After any other error at least the leader is killed.
        if (!hasCode(error, "ESRCH")) child.kill("SIGKILL");
      }
    },
    leave: () => {
      child.stdout.destroy();
      child.stderr.destroy();
      // One that a kill does not end, in a mount that hangs, must not keep this process from ending.
      child.unref();
    },
  };
};
