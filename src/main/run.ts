/** The program. `main` loads it. Only the files beside it read and change the process. */
import { readFile, stat } from "node:fs/promises";
import { packageDirectory } from "../lib/package-directory.js";
import { readBuildInfo } from "./build-info.js";
import { runCommandLine } from "./program.js";
import type { RelayIo } from "../compare/cli/relay-command.js";
import { clientActions } from "./client-actions.js";
import { abortWhenInterrupted, interrupted, programIo, writeError, writeOut } from "../cli/process-io.js";

const build = await readBuildInfo(packageDirectory());

/** For the configuration, and for Docker's. */
const files = {
  readFile: (path: string) => readFile(path, "utf8"),
  isSocket: (path: string) =>
    stat(path).then(
      (status) => status.isSocket(),
      () => false,
    ),
};

const migrateIo = {
  environment: process.env,
  version: build.version,
  isTerminal: process.stdout.isTTY,
  writeOut,
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

process.exitCode = await runCommandLine(
  process.argv.slice(2),
  {
    // Each command is loaded when it runs: a server does not need the modules of play, nor play those of the
    // server.
    serve: async (resolved) => {
      const { runServe } = await import("../shim/serve/serve-command.js");
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
      const { runDoctorNetwork } = await import("../shim/serve/doctor-command.js");
      return runDoctorNetwork(resolved, options, process.env, writeOut);
    },
    doctorReach: async (resolved) => {
      const { runDoctorReach } = await import("../shim/serve/doctor-reach.js");
      return runDoctorReach(resolved, process.env, writeOut);
    },
    doctorUlimits: async (resolved) => {
      const { runDoctorUlimits } = await import("../shim/serve/doctor-ulimits.js");
      return runDoctorUlimits(resolved, process.env, writeOut);
    },
    diff: async (options) => {
      abortWhenInterrupted();
      const { runDiff } = await import("../compare/cli/diff-command.js");
      return runDiff(options, { writeOut, signal: interrupted.signal });
    },
    record: async (options) => {
      abortWhenInterrupted();
      const { runRecord } = await import("../compare/cli/relay-command.js");
      return runRecord(options, relayIo());
    },
    shadow: async (options) => {
      abortWhenInterrupted();
      const { runShadow } = await import("../compare/cli/relay-command.js");
      return runShadow(options, relayIo());
    },
    showReport: async (path) => {
      const { showReport } = await import("../compare/cli/show-report.js");
      return showReport(path, writeOut);
    },
    forward: async (options) => {
      abortWhenInterrupted();
      const { runForward } = await import("../forward/forward-command.js");
      const { signal } = interrupted;
      return runForward(options, { environment: process.env, ...files, writeError, signal });
    },
    dial: async (address) => {
      const { runDial } = await import("../forward/dial-command.js");
      const { stdin, stdout } = process;
      return runDial(address, { stdin, stdout });
    },
    replay: async (options) => {
      abortWhenInterrupted();
      const { runReplay } = await import("../compare/cli/replay-command.js");
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
      const { runObserveCalls } = await import("../compare/cli/relay-command.js");
      return runObserveCalls(task, process.stdin);
    },
    migrateCheck: async (options) => {
      const { runMigrateCheck } = await import("../migrate/cli/migrate-command.js");
      return runMigrateCheck(options, migrateIo);
    },
    migratePlan: async (options) => {
      const { runMigratePlan } = await import("../migrate/cli/migrate-command.js");
      return runMigratePlan(options, migrateIo);
    },
    checkpoint: async (options) => {
      const { runCheckpoint } = await import("../../checkpoints/cli/checkpoint-command.js");
      return runCheckpoint(options, { environment: process.env, writeOut });
    },
    rehearse: async (options) => {
      abortWhenInterrupted();
      const { runRehearse } = await import("../migrate/cli/rehearse-command.js");
      const again = [...relayIo().self, ...process.argv.slice(2)];
      return runRehearse(options, {
        ...{ environment: process.env, writeOut, signal: interrupted.signal, again },
      });
    },
    ...clientActions,
  },
  {
    ...programIo,
    ...files,
  },
  build,
);
