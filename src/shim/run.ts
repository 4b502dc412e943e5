/** The whole program: the one place that touches the process. `main` loads it. */
import { readFile } from "node:fs/promises";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { ShimError } from "./base/errors.js";
import { runDoctorNetwork } from "./commands/doctor-command.js";
import { readBuildInfo } from "./commands/build-info.js";
import { runPlay } from "./commands/play-command.js";
import { runCommandLine } from "./commands/run-command-line.js";
import { runServe } from "./commands/serve-command.js";
import { findPackageDirectory } from "./pause/programs.js";

const build = await readBuildInfo(await findPackageDirectory(dirname(fileURLToPath(import.meta.url))));

const writeOut = (text: string): void => {
  process.stdout.write(text);
};
const writeError = (text: string): void => {
  process.stderr.write(text);
};

const interrupted = new AbortController();

// Unit files of the ancestors send it on reload, where it would end a process that does not listen.
process.on("SIGHUP", () => undefined);

process.exitCode = await runCommandLine(
  process.argv.slice(2),
  {
    serve: (resolved) =>
      runServe(resolved, {
        environment: process.env,
        version: build.version,
        writeOut,
        onSignal: (listener) => {
          process.on("SIGTERM", listener);
          process.on("SIGINT", listener);
        },
      }),
    doctorNetwork: (resolved, options) => runDoctorNetwork(resolved, options, process.env, writeOut),
    play: (options) => {
      for (const name of ["SIGINT", "SIGTERM"] as const) {
        process.once(name, () => {
          interrupted.abort(new ShimError("cancelled", "interrupted"));
        });
      }
      return runPlay(
        { ...options, endpoint: options.endpoint.path },
        { stdout: process.stdout, stderr: process.stderr, stdin: process.stdin, signal: interrupted.signal },
      );
    },
  },
  {
    environment: process.env,
    readFile: (path) => readFile(path, "utf8"),
    writeOut,
    writeError,
  },
  build,
);
