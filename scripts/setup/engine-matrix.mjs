/** The command line and the table of `npm run engine-matrix`. */
import { UsageError } from "./test-options.mjs";

export { UsageError };

/**
 * @typedef {import("./test-runner.mjs").Counts} Counts
 * @typedef {{ name: string, endpoint: string, pid?: number, transport?: "unix" | "tcp" | "ssh" }} MatrixEngine
 * @typedef {{ name: string, version: string, store: string, cgroups: string, mode: string }} EngineRow
 */

export const usage = `Usage: npm run engine-matrix -- ENGINE... [-- WORD...]

Runs the integration tests against each engine in turn and prints one table.
With words, only the test files whose path contains one of them.

  ENGINE   NAME=ENDPOINT, as 28.5=unix:///run/docker.sock
           NAME=ENDPOINT@PID: in the namespaces of that process (mount, network, PID, IPC, UTS), by nsenter;
           a socket's path is one in there
           elsewhere:unix, elsewhere:tcp (with TLS), elsewhere:ssh: one that is started for the run, and of which the
           tests share nothing but that way to it

Exit code: 0 something ran on each engine and nothing failed, 1 otherwise, 2 this command line was not understood.
`;

/**
 * Throws UsageError.
 * @param {readonly string[]} argv
 * @returns {"help" | { engines: MatrixEngine[], words: string[] }}
 */
export function matrixOptions(argv) {
  if (argv.includes("--help") || argv.includes("-h")) return "help";
  const end = argv.includes("--") ? argv.indexOf("--") : argv.length;
  const engines = argv.slice(0, end).map(parseEngine);
  if (engines.length === 0) throw new UsageError("name at least one engine");
  const twice = engines.find(({ name }, index) => engines.findIndex((one) => one.name === name) !== index);
  if (twice !== undefined) throw new UsageError(`two engines have the name "${twice.name}"`);
  return { engines, words: argv.slice(end + 1) };
}

/** @param {string} argument @returns {MatrixEngine} */
function parseEngine(argument) {
  const [, transport] = /^elsewhere:(unix|tcp|ssh)$/.exec(argument) ?? [];
  if (transport !== undefined)
    return { name: argument, endpoint: "", transport: /** @type {"unix" | "tcp" | "ssh"} */ (transport) };
  // An endpoint may have an "@" of its own: ssh://user@host.
  const match = /^([\w.+ -]+)=([a-z]+:\/\/.+?)(?:@(\d+))?$/.exec(argument);
  if (match === null) throw new UsageError(`"${argument}" is not NAME=ENDPOINT or NAME=ENDPOINT@PID`);
  const [, name = "", endpoint = "", pid] = match;
  return { name, endpoint, ...(pid === undefined ? {} : { pid: Number(pid) }) };
}

/**
 * What stands before a command so that it runs in `directory`, in the engine's namespaces.
 * @param {MatrixEngine} engine
 * @param {string} directory
 * @returns {string[]}
 */
export function commandIn({ pid }, directory) {
  if (pid === undefined) return [];
  const namespaces = ["--mount", "--net", "--pid", "--ipc", "--uts"];
  return ["nsenter", "--target", String(pid), ...namespaces, "--", "env", `--chdir=${directory}`];
}

/**
 * @param {MatrixEngine} engine
 * @param {{ ServerVersion?: string, Driver?: string, DriverStatus?: [string, string][] | null, CgroupDriver?: string,
 *   CgroupVersion?: string, SecurityOptions?: string[] | null, LiveRestoreEnabled?: boolean }} info the engine's answer to
 *   /info
 * @returns {EngineRow}
 */
export function engineRow({ name }, info) {
  const options = (info.SecurityOptions ?? []).map((option) => /name=([^,]+)/.exec(option)?.[1] ?? option);
  const isContainerd = (info.DriverStatus ?? []).some(
    ([key, value]) => key === "driver-type" && value.includes("containerd"),
  );
  const modes = [
    ...(options.includes("rootless") ? ["rootless"] : ["root"]),
    ...(options.includes("userns") ? ["userns-remap"] : []),
    ...(info.LiveRestoreEnabled === true ? ["live-restore"] : []),
  ];
  return {
    name,
    version: info.ServerVersion ?? "unknown",
    store: isContainerd ? `containerd (${info.Driver ?? ""})` : (info.Driver ?? "unknown"),
    cgroups: `${info.CgroupVersion ?? "1"}, ${info.CgroupDriver ?? "unknown"}`,
    mode: modes.join(", "),
  };
}

/** @param {readonly (EngineRow & { counts: Counts, minutes: number })[]} rows */
export function renderMatrix(rows) {
  const lines = rows.map(({ name, version, store, cgroups, mode, counts, minutes }) => {
    const numbers = [counts.passed, counts.failed, counts.skipped, minutes.toFixed(0)];
    return `| ${[name, version, store, cgroups, mode, ...numbers].join(" | ")} |`;
  });
  const list = (/** @type {string} */ title, /** @type {"failedFiles" | "skippedTests"} */ kind) => {
    const names = rows.flatMap(({ name, counts }) => counts[kind].map((test) => `- ${name}: ${test}`));
    return names.length === 0 ? [] : ["", `${title}:`, "", ...names];
  };
  const head =
    "| engine | version | image store | cgroup version, driver | mode | passed | failed | skipped | minutes |";
  return `${[head, head.replaceAll(/ [^|]+ /g, " --- "), ...lines, ...list("Failed", "failedFiles"), ...list("Skipped", "skippedTests")].join("\n")}\n`;
}
