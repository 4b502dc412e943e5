/** The process: its output, its signals. */
import { ShimError } from "../lib/errors.js";
import type { ProgramIo } from "./run-program.js";

export const writeOut = (text: string): void => {
  process.stdout.write(text);
};
export const writeError = (text: string): void => {
  process.stderr.write(text);
};

export const programIo: ProgramIo = { environment: process.env, writeOut, writeError };

export const interrupted = new AbortController();
export const abortWhenInterrupted = (): void => {
  const abort = (): void => {
    interrupted.abort(new ShimError("cancelled", "interrupted"));
  };
  // A second Ctrl-C ends the program at once.
  process.once("SIGINT", abort);
  // The kernel may send this one several times to a child of a process that was killed.
  process.on("SIGTERM", abort);
};

// The reader of a pipe may end first, as in `… | head -1`: a program that follows something ends then as at Ctrl-C,
// and a server goes on. Output that is lost otherwise, as on a full disk, is a failure.
for (const stream of [process.stdout, process.stderr]) {
  let isTold = false;
  stream.on("error", ({ code, message }: NodeJS.ErrnoException) => {
    interrupted.abort(new ShimError("cancelled", "the output has no reader any more"));
    if (code === "EPIPE" || isTold) return;
    isTold = true;
    process.once("exit", () => {
      process.exitCode ||= 1;
    });
    if (stream === process.stdout) writeError(`dockershim: write the output: ${message}\n`);
  });
}

// Unit files of dockershim and cri-dockerd send SIGHUP on reload, which ends a process without a listener.
process.on("SIGHUP", () => undefined);
