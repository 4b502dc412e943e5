#!/usr/bin/env node
/**
 * `npm run dev -- FLAG...`: the shim from the sources, started again whenever one of them changes, with a state directory and a
 * socket of its own in .cache/dev, and its log in readable lines. Flags of Node.js that debug or measure are passed on to it.
 */
import { spawn } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { ensureDependencies } from "./setup/dependencies.mjs";
import { cacheDirectory, repositoryRoot } from "./setup/paths.mjs";

const forNode = /^--(inspect|cpu-prof|heap-prof|heapsnapshot|trace|stack-trace)/;
const levels = new Map([
  [10, "trace"],
  [20, "debug"],
  [30, "info"],
  [40, "warn"],
  [50, "ERROR"],
  [60, "FATAL"],
]);

/**
 * A record of the log as a line to read; any other line as it is.
 * @param {string} line
 */
function readable(line) {
  try {
    const { level, time, msg, ...fields } = /** @type {Record<string, unknown>} */ (JSON.parse(line));
    if (typeof level !== "number" || typeof time !== "string") return line;
    const values = Object.entries(fields).map(
      ([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`,
    );
    return `${time.slice(11, 23)} ${(levels.get(level) ?? String(level)).padEnd(5)} ${msg ?? ""}  ${values.join(" ")}`;
  } catch {
    return line;
  }
}

await ensureDependencies({ root: repositoryRoot, log: (line) => process.stderr.write(`${line}\n`) });
const directory = join(cacheDirectory, "dev");
mkdirSync(directory, { recursive: true, mode: 0o700 });
const argv = process.argv.slice(2);
const child = spawn(
  process.execPath,
  [
    "--watch",
    "--watch-preserve-output",
    "--import",
    "tsx",
    ...argv.filter((argument) => forNode.test(argument)),
    join("src", "main", "main.ts"),
    "--state-dir",
    join(directory, "state"),
    "--container-runtime-endpoint",
    `unix://${join(directory, "dockershim.sock")}`,
    "--cadvisor-socket",
    join(directory, "cadvisor.sock"),
    ...argv.filter((argument) => !forNode.test(argument)),
  ],
  { cwd: repositoryRoot, stdio: ["inherit", "inherit", "pipe"] },
);
createInterface({ input: child.stderr }).on("line", (line) => process.stderr.write(`${readable(line)}\n`));
// A terminal sends its Ctrl-C to the shim, too; this process ends when the shim has.
process.on("SIGINT", () => undefined).on("SIGTERM", () => child.kill("SIGTERM"));
child.once("exit", (code) => (process.exitCode = code ?? 1));
