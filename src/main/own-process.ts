/** The process: its output, its signals. */
import { writeFileSync } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import { basename } from "node:path";
import { isatty } from "node:tty";
import { ShimError } from "../lib/errors.js";
import { commandNames } from "../cli/docker-plugin.js";
import type { ProcessIo } from "../cli/process-io.js";
import { ownFiles } from "../lib/own-files.js";
import type { BuildInfo } from "./build-info.js";

/**
 * The name that ps, top and pgrep show; Node.js has one of its own for it. `process.title` would replace the command line, too,
 * with its flags.
 */
function nameProcess(): void {
  try {
    writeFileSync("/proc/self/comm", "dockershim");
  } catch {
    // Only Linux has the file, and not in each container; nothing depends on the name.
  }
}

/** Once for a process: it names it, and listens to the errors of the outputs and to SIGHUP. */
export function ownProcess(build: BuildInfo): ProcessIo {
  nameProcess();
  const interrupted = new AbortController();
  const hungUp = new AbortController();
  // nohup(1) leaves no terminal, and Node.js forgets that it had the signal ignored.
  const hasTerminal = [0, 1, 2].some((descriptor) => isatty(descriptor));
  const abortWhenInterrupted = once(() => {
    const abort = (): void => {
      interrupted.abort(new ShimError("cancelled", "interrupted"));
    };
    // A second Ctrl-C ends the program at once.
    process.once("SIGINT", abort);
    // The kernel may send this one several times to a child of a process that was killed.
    process.on("SIGTERM", abort);
    const end = (): void => {
      interrupted.abort(new ShimError("cancelled", "the terminal was closed"));
      process.once("exit", endByHangup);
    };
    if (hungUp.signal.aborted) end();
    else hungUp.signal.addEventListener("abort", end, { once: true });
  });
  followOutputs(interrupted);
  // Unit files of dockershim and cri-dockerd send SIGHUP on reload, which ends a process without a listener.
  process.on("SIGHUP", () => {
    if (hasTerminal) hungUp.abort();
  });
  const { env: environment, stdout, stderr } = process;
  const called = ownFiles().directory === undefined ? calledName(process.argv0) : [];
  const argv = [...called, ...process.argv.slice(2)];
  return {
    ...build,
    environment,
    argv,
    commandNames: commandNames(argv),
    self: ownFiles().self,
    get stdin() {
      return process.stdin;
    },
    stdout,
    stderr,
    isTerminal: stdout.isTTY,
    get signal() {
      abortWhenInterrupted();
      return interrupted.signal;
    },
    writeOut,
    writeError,
    readFile: (path) => readFile(path, "utf8"),
    isSocket: (path) =>
      stat(path).then(
        (status) => status.isSocket(),
        () => false,
      ),
    onSignal: (listener) => {
      process.on("SIGTERM", listener);
      process.on("SIGINT", listener);
    },
    endAtOnce: () => {
      // process.exit() waits for the threads, of which some may be blocked in the kernel.
      process.kill(process.pid, "SIGKILL");
      // The first process of a container is not killed by itself.
      process.abort();
    },
  };
}

/**
 * Docker's CLI finds its plugins by their names, unit files have cri-dockerd's: they are links to the executable or
 * copies of it, or links to bin/dockershim, which puts the same words first.
 */
export function calledName(argv0: string): readonly string[] {
  const name = basename(argv0);
  if (name === "docker-pod") return ["docker-cli-plugin"];
  return name === "cri-dockerd" ? [name] : [];
}

/** As a process without a listener: Node.js aborts when it cannot restore its terminal, which is gone. */
function endByHangup(): void {
  process.removeAllListeners("SIGHUP");
  process.kill(process.pid, "SIGHUP");
}

function writeOut(text: string): void {
  process.stdout.write(text);
}

function writeError(text: string): void {
  process.stderr.write(text);
}

/**
 * The reader of a pipe may end first, as in `… | head -1`: a program that follows something ends then as at Ctrl-C,
 * and a server goes on. Output that is lost otherwise, as on a full disk, is a failure.
 */
function followOutputs(interrupted: AbortController): void {
  for (const stream of [process.stdout, process.stderr]) {
    let isReported = false;
    stream.on("error", ({ code, message }: NodeJS.ErrnoException) => {
      interrupted.abort(new ShimError("cancelled", "the output has no reader any more"));
      if (code === "EPIPE" || isReported) return;
      isReported = true;
      process.once("exit", () => {
        process.exitCode ||= 1;
      });
      if (stream === process.stdout) writeError(`dockershim: write the output: ${message}\n`);
    });
  }
}

function once(work: () => void): () => void {
  let isDone = false;
  return () => {
    if (isDone) return;
    isDone = true;
    work();
  };
}
