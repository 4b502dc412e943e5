/** `dockershim record`, `replay` and `shadow` as commander sees them. */
import type { Command } from "commander";
import { durationKind } from "../../shim/config/value-kinds.js";
import { ShimError } from "../../lib/errors.js";
import type { CommandParts } from "../../cli/command-parts.js";
import { pageOrJson, parseFlag, wrongFlag } from "../../cli/flag-values.js";
import { refuseArguments } from "../../cli/flags.js";

const mebibyte = 1024 * 1024;

export function addRelayCommands(parts: CommandParts): void {
  addRecord(parts);
  addReplay(parts);
  addShadow(parts);
  const { addCommand, run, io } = parts;
  // A terminal and systemd send their signals to these processes, too, also while they load: the relay ends them.
  const ignoreSignals = (): void => io.onSignal(() => undefined);
  const keep = addCommand("keep-link", "the process that keeps the link of a relay", { hidden: true });
  keep.action(() => {
    ignoreSignals();
    return run(() => import("../relay/keep-link.js"), "runKeepLink", oneArgument(keep, "the paths"));
  });
  const observe = addCommand("observe-calls", "the process that observes a relay", { hidden: true });
  observe.action(() => {
    ignoreSignals();
    return run(() => import("./relay-command.js"), "runObserveCalls", oneArgument(observe, "a task"));
  });
}

function addRecord({ addCommand, refuseServeFlags, run }: CommandParts): void {
  const record = addCommand("record", "record the calls of a CRI server's clients into a file");
  record
    .requiredOption("--primary <socket>", "socket of the CRI server; required")
    .option(
      "--listen <path>",
      "symbolic link that the clients dial; made here",
      "/run/dockershim-record.sock",
    )
    .requiredOption("--output <file>", "the recording; must not exist; required")
    .option("--for <duration>", "end after this time, as 10m (default: at SIGINT or SIGTERM)")
    .option("--max-size <MiB>", "end when the file has this size", "1024")
    .option("--with-output", "keep what ExecSync printed (default: only its size)")
    .action(async (given: Record<string, string | true | undefined>) => {
      refuseServeFlags("record");
      refuseArguments(record);
      const size = Number(given["maxSize"]);
      if (!(size >= 1 && size <= 1024 * 1024))
        throw wrongFlag("--max-size", given["maxSize"], "must be 1 to 1048576 MiB");
      await run(() => import("./relay-command.js"), "runRecord", {
        primary: absolute("--primary", given["primary"]),
        listen: absolute("--listen", given["listen"]),
        output: text(given["output"]),
        durationMs:
          given["for"] === undefined ? undefined : parseFlag("--for", text(given["for"]), durationKind()),
        limitBytes: size * mebibyte,
        withOutput: given["withOutput"] === true,
      });
    });
}

function addReplay({ addCommand, refuseServeFlags, run }: CommandParts): void {
  const replay = addCommand("replay", "repeat the calls of a recording at a CRI server, and compare");
  replay
    .usage("[flags] RECORDING")
    .requiredOption("--endpoint <socket>", "socket of the CRI server; required")
    .option("--fast", "wait for the answers that a call needs (default: for its time)")
    .option("--anyway", "play although the server has pods")
    .addOption(pageOrJson())
    .action(async (given: { endpoint: string; fast?: true; anyway?: true; output: "page" | "json" }) => {
      refuseServeFlags("replay");
      await run(() => import("./replay-command.js"), "runReplay", {
        recording: oneArgument(replay, "a recording"),
        endpoint: absolute("--endpoint", given.endpoint),
        fast: given.fast === true,
        anyway: given.anyway === true,
        format: given.output,
      });
    });
}

function addShadow({ addCommand, refuseServeFlags, run }: CommandParts): void {
  const shadow = addCommand("shadow", "ask a second CRI server what clients ask the first, and compare");
  shadow
    .usage("[flags] | report FILE")
    .option("--primary <socket>", "socket of the CRI server that clients use; required")
    .option(
      "--listen <path>",
      "symbolic link that the clients dial; made here",
      "/run/dockershim-shadow.sock",
    )
    .option("--endpoint <socket>", 'socket of the second server, "dockershim serve --read-only"; required')
    .option("--report <file>", "the report, written each minute and at the end; required")
    .action(async (given: Record<string, string | undefined>) => {
      refuseServeFlags("shadow");
      const [word, file, ...rest] = shadow.args;
      if (word === "report" && file !== undefined && rest.length === 0) {
        await run(() => import("./show-report.js"), "runShowReport", file);
        return;
      }
      if (word === "report") throw new ShimError("invalid", 'command "shadow report": name one report');
      refuseArguments(shadow);
      for (const name of ["primary", "endpoint", "report"]) {
        if (given[name] === undefined)
          throw new ShimError("invalid", `command "shadow": needs flag "--${name}"`);
      }
      await run(() => import("./relay-command.js"), "runShadow", {
        primary: absolute("--primary", given["primary"]),
        listen: absolute("--listen", given["listen"]),
        endpoint: absolute("--endpoint", given["endpoint"]),
        report: text(given["report"]),
      });
    });
}

function oneArgument(command: Command, what: string): string {
  const [argument, ...rest] = command.args;
  if (argument !== undefined && rest.length === 0) return argument;
  throw new ShimError("invalid", `command "${command.name()}": needs ${what}`);
}

/** The path of `unix:///path` or `/path`. */
function absolute(flag: string, value: string | true | undefined): string {
  const path = text(value).replace(/^unix:\/\//, "");
  if (path.startsWith("/")) return path;
  throw wrongFlag(flag, value, "must be an absolute path, or unix:// and an absolute path");
}

function text(value: string | true | undefined): string {
  return typeof value === "string" ? value : "";
}
