/** The program: the only file that reads and changes the process. `main` loads it. */
import { readFile, stat } from "node:fs/promises";
import { ShimError } from "./lib/errors.js";
import { packageDirectory } from "./lib/package-directory.js";
import { readBuildInfo } from "./commands/build-info.js";
import { runCommandLine } from "./commands/program.js";
import type { RelayIo } from "./commands/relay-command.js";

const build = await readBuildInfo(packageDirectory());

const writeOut = (text: string): void => {
  process.stdout.write(text);
};
const writeError = (text: string): void => {
  process.stderr.write(text);
};

const migrateIo = {
  environment: process.env,
  version: build.version,
  isTerminal: process.stdout.isTTY,
  writeOut,
};

const interrupted = new AbortController();
const abortWhenInterrupted = (): void => {
  const abort = (): void => {
    interrupted.abort(new ShimError("cancelled", "interrupted"));
  };
  // A second Ctrl-C ends the program at once.
  process.once("SIGINT", abort);
  // The kernel may send this one several times to a child of a process that was killed.
  process.on("SIGTERM", abort);
};
/** A terminal and systemd send their signals to the processes beside a relay, too: it tells them to end. */
const ignoreSignals = (): void => {
  for (const name of ["SIGINT", "SIGTERM"] as const) process.on(name, () => undefined);
};
const relayIo = (): RelayIo => ({
  writeOut,
  signal: interrupted.signal,
  // The same program again, as it was started.
  self: [process.execPath, ...process.execArgv, process.argv[1] ?? ""],
});

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

process.exitCode = await runCommandLine(
  process.argv.slice(2),
  {
    // Each command is loaded when it runs: a server does not need the modules of play, nor play those of the
    // server.
    serve: async (resolved) => {
      const { runServe } = await import("./commands/serve-command.js");
      return runServe(resolved, {
        environment: process.env,
        version: build.version,
        writeOut,
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
      });
    },
    doctorNetwork: async (resolved, options) => {
      const { runDoctorNetwork } = await import("./commands/doctor-command.js");
      return runDoctorNetwork(resolved, options, process.env, writeOut);
    },
    doctorUlimits: async (resolved) => {
      const { runDoctorUlimits } = await import("./commands/doctor-ulimits.js");
      return runDoctorUlimits(resolved, process.env, writeOut);
    },
    diff: async (options) => {
      abortWhenInterrupted();
      const { runDiff } = await import("./commands/diff-command.js");
      return runDiff(options, { writeOut, signal: interrupted.signal });
    },
    record: async (options) => {
      abortWhenInterrupted();
      const { runRecord } = await import("./commands/relay-command.js");
      return runRecord(options, relayIo());
    },
    shadow: async (options) => {
      abortWhenInterrupted();
      const { runShadow } = await import("./commands/relay-command.js");
      return runShadow(options, relayIo());
    },
    showReport: async (path) => {
      const { showReport } = await import("./commands/show-report.js");
      return showReport(path, writeOut);
    },
    replay: async (options) => {
      abortWhenInterrupted();
      const { runReplay } = await import("./commands/replay-command.js");
      return runReplay(options, { writeOut, signal: interrupted.signal });
    },
    keepLink: async (paths) => {
      ignoreSignals();
      const { keepLink } = await import("../compare/keep-link.js");
      await keepLink(paths, process.stdin);
      return 0;
    },
    observeCalls: async (task) => {
      ignoreSignals();
      const { runObserveCalls } = await import("./commands/relay-command.js");
      return runObserveCalls(task, process.stdin);
    },
    migrateCheck: async (options) => {
      const { runMigrateCheck } = await import("./commands/migrate-command.js");
      return runMigrateCheck(options, migrateIo);
    },
    migratePlan: async (options) => {
      const { runMigratePlan } = await import("./commands/migrate-command.js");
      return runMigratePlan(options, migrateIo);
    },
    checkpoint: async (options) => {
      const { runCheckpoint } = await import("./commands/checkpoint-command.js");
      return runCheckpoint(options, { environment: process.env, writeOut });
    },
    rehearse: async (options) => {
      abortWhenInterrupted();
      const { runRehearse } = await import("./commands/rehearse-command.js");
      const again = [...relayIo().self, ...process.argv.slice(2)];
      return runRehearse(options, {
        ...{ environment: process.env, writeOut, signal: interrupted.signal, again },
      });
    },
    pod: async (request, endpoint) => {
      abortWhenInterrupted();
      const { runPod } = await import("./commands/pod-command.js");
      const { stdin, stdout, stderr } = process;
      return runPod(request, endpoint, { stdin, stdout, stderr, signal: interrupted.signal });
    },
    play: async (options) => {
      abortWhenInterrupted();
      const { runPlay } = await import("./commands/play-command.js");
      return runPlay(
        { ...options, endpoint: options.endpoint.path },
        { stdout: process.stdout, stderr: process.stderr, stdin: process.stdin, signal: interrupted.signal },
      );
    },
  },
  {
    environment: process.env,
    readFile: (path) => readFile(path, "utf8"),
    isSocket: (path) =>
      stat(path).then(
        (status) => status.isSocket(),
        () => false,
      ),
    writeOut,
    writeError,
  },
  build,
);
