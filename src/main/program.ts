/** The command line as commander sees it. Actions are injected; flags come from the table in `config`. */
import { ShimError } from "../lib/errors.js";
import { type GivenFlag, type ResolvedConfig, resolveConfig } from "../shim/config/resolve.js";
import { enumKind } from "../shim/config/value-kinds.js";
import { type ConfigFormat, configFormats, renderConfig } from "../shim/serve/config-command.js";
import { addServeFlags, isSwitchedOn, refuseArguments, refuseServeFlags } from "../cli/flags.js";
import { addDiffCommand, type DiffActions } from "../compare/cli/diff-commands.js";
import { addCheckpointCommands, type CheckpointActions } from "../../checkpoints/cli/checkpoint-commands.js";
import { completionScript, shells } from "../cli/completion.js";
import { addPlayCommand, type PlayActions } from "../play/cli/play-commands.js";
import { addPodCommands, type PodActions } from "../play/pod/cli/pod-commands.js";
import { type ProgramIo, type Program, runProgram, startProgram } from "../cli/run-program.js";
import { addRelayCommands, type RelayActions } from "../compare/cli/relay-commands.js";
import { addForwardCommands, type ForwardActions } from "../forward/forward-commands.js";
import { addMigrateCommands, type MigrateActions } from "../migrate/cli/migrate-commands.js";

/**
 * The actions of the commands return the exit code. A thrown error becomes one line on standard error and
 * code 1.
 */
export interface Actions
  extends
    DiffActions,
    RelayActions,
    MigrateActions,
    CheckpointActions,
    PodActions,
    PlayActions,
    ForwardActions {
  serve(resolved: ResolvedConfig): Promise<number>;
  doctorNetwork(resolved: ResolvedConfig, options: { readonly check: boolean }): Promise<number>;
  doctorReach(resolved: ResolvedConfig): Promise<number>;
  doctorUlimits(resolved: ResolvedConfig): Promise<number>;
}

export interface BuildInfo {
  readonly version: string;
  readonly commit: string;
}

/** The parts of the process that the command line reads and writes. */
export interface CommandIo extends ProgramIo {
  readFile(path: string): Promise<string>;
  readonly isSocket?: (path: string) => Promise<boolean>;
}

/**
 * The command tree. `serve` is the default command. The flags of `serve` and `config` may stand before or
 * after the command. Most callers use `runCommandLine`.
 */
export function buildProgram(actions: Actions, io: CommandIo, build: BuildInfo): Program {
  const flags: GivenFlag[] = [];
  const program = startProgram(io, {
    refuseServeFlags: (name) => {
      refuseServeFlags(flags, name);
    },
  });
  const { command: root, parts } = program;
  const { addCommand, ended } = parts;

  const printVersion = (): void => {
    io.writeOut(`dockershim ${build.version} (${build.commit})\n`);
  };
  /** Runs `action` unless a flag asks for the version, which needs no valid configuration. */
  const withConfig = async (action: (resolved: ResolvedConfig) => Promise<number>): Promise<void> => {
    if (isSwitchedOn(flags, "version")) {
      printVersion();
    } else if (isSwitchedOn(flags, "buildinfo")) {
      io.writeOut(`Program: dockershim\nVersion: ${build.version}\nGitCommit: ${build.commit}\n`);
      io.writeOut(`Node.js version: ${process.version}\n`);
    } else {
      ended(
        await action(await resolveConfig(flags, io.environment, (path) => io.readFile(path), io.isSocket)),
      );
    }
  };

  const serve = addCommand("serve", "serve the CRI (the default command)");
  for (const command of [root, serve]) {
    addServeFlags(command, flags);
    command.action(async () => {
      refuseArguments(command);
      await withConfig((resolved) => actions.serve(resolved));
    });
  }

  const config = addCommand("config", "print every effective value and its source");
  config.option(
    "-o, --output <format>",
    `${configFormats.join(", ")}; yaml and json can be used as --config`,
  );
  addServeFlags(config, flags);
  config.action(async ({ output = "table" }: { output?: string }) => {
    refuseArguments(config);
    const format = parseFormat(output);
    await withConfig(async (resolved) => {
      for (const warning of resolved.warnings) io.writeError(`dockershim: ${warning}\n`);
      io.writeOut(await renderConfig(resolved, format));
      return 0;
    });
  });

  const doctor = addCommand("doctor", "compare the node with the engine; changes nothing");
  doctor.usage("network|reach|ulimits [flags]");
  doctor.option("--check", "network: also call CHECK of the CNI plugins for running pods");
  addServeFlags(doctor, flags);
  doctor.action(async ({ check = false }: { check?: boolean }) => {
    const [subject, ...rest] = doctor.args;
    if ((subject !== "network" && subject !== "reach" && subject !== "ulimits") || rest.length > 0) {
      const given = doctor.args.map((word) => JSON.stringify(word)).join(" ");
      throw new ShimError(
        "invalid",
        `command "doctor": ${given === "" ? "no subject given" : given}; use "network", "reach" or "ulimits"`,
      );
    }
    if (check && subject !== "network") {
      throw new ShimError("invalid", `command "doctor": --check is for "network" alone`);
    }
    await withConfig((resolved) => {
      if (subject === "network") return actions.doctorNetwork(resolved, { check });
      return subject === "reach" ? actions.doctorReach(resolved) : actions.doctorUlimits(resolved);
    });
  });

  addPlayCommand(actions, parts);
  addDiffCommand(actions, parts);
  addRelayCommands(actions, parts);
  addForwardCommands(actions, parts);
  addMigrateCommands(actions, parts);
  addCheckpointCommands(actions, parts);
  addPodCommands(actions, parts);

  const completion = addCommand("completion", "print the completions of a shell");
  completion.usage(shells.join("|")).action(() => {
    refuseServeFlags(flags, "completion");
    const shell = shells.find((each) => each === completion.args[0]);
    if (shell === undefined || completion.args.length > 1)
      throw new ShimError("invalid", `command "completion": needs one of ${shells.join(", ")}`);
    io.writeOut(completionScript(root, shell));
  });

  const version = addCommand("version", "print the version");
  version.action(() => {
    refuseArguments(version);
    refuseServeFlags(flags, "version");
    printVersion();
  });

  return program;
}

function parseFormat(text: string): ConfigFormat {
  try {
    return enumKind(configFormats).parse(text);
  } catch (error) {
    throw ShimError.from(error).within(`flag "--output": ${JSON.stringify(text)}`);
  }
}

/** As `runProgram`, with all commands. */
export async function runCommandLine(
  argv: readonly string[],
  actions: Actions,
  io: CommandIo,
  build: BuildInfo,
): Promise<number> {
  return runProgram(argv, buildProgram(actions, io, build), io, build.version);
}
