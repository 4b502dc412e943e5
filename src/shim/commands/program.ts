/** The command line as commander sees it. Actions are injected; flags come from the table in `config`. */
import { Command } from "commander";
import { ShimError } from "../lib/errors.js";
import type { Environment } from "../config/environment.js";
import { resolveConfig, type GivenFlag, type ResolvedConfig } from "../config/resolve.js";
import { enumKind } from "../config/value-kinds.js";
import { configFormats, renderConfig, type ConfigFormat } from "./config-command.js";
import { playEndpointHelp, resolvePlayEndpoint, type PlayOptions } from "./play-options.js";
import { addServeFlags, isSwitchedOn, refuseServeFlags } from "./serve-flags.js";
import { refuseArguments, usageErrorsOf } from "./usage-errors.js";

/** What the commands do. The number is the exit code; a thrown error is one line on standard error and exit code 1. */
export interface Actions {
  serve(resolved: ResolvedConfig): Promise<number>;
  doctorNetwork(resolved: ResolvedConfig, options: { readonly check: boolean }): Promise<number>;
  doctorUlimits(resolved: ResolvedConfig): Promise<number>;
  play(options: PlayOptions): Promise<number>;
}

export interface BuildInfo {
  readonly version: string;
  readonly commit: string;
}

/** The parts of the process that the command line reads and writes. */
export interface CommandIo {
  readonly environment: Environment;
  readFile(path: string): Promise<string>;
  writeOut(text: string): void;
  writeError(text: string): void;
}

export interface Program {
  readonly command: Command;
  /** That of the action, once `command` is parsed. */
  exitCode(): number;
}

/**
 * The whole command tree. `serve` is what happens without a command. The flags of `serve` and `config` may stand
 * before or after the command. For normal use through `runCommandLine`.
 */
export function buildProgram(actions: Actions, io: CommandIo, build: BuildInfo): Program {
  const flags: GivenFlag[] = [];
  let exitCode = 0;

  const root = new Command("dockershim")
    .description("Serves the Kubernetes Container Runtime Interface on a Docker Engine")
    .usage("[command] [flags]")
    .enablePositionalOptions()
    .allowExcessArguments()
    .helpCommand(false)
    .configureOutput({
      writeOut: (text) => {
        io.writeOut(text);
      },
      // The error that follows says it all in one line.
      writeErr: () => undefined,
    });
  root.exitOverride(usageErrorsOf(root));
  const addCommand = (name: string, summary: string): Command => {
    const command = root.command(name).summary(summary).description(summary);
    return command.exitOverride(usageErrorsOf(command));
  };

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
      exitCode = await action(await resolveConfig(flags, io.environment, (path) => io.readFile(path)));
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

  const config = addCommand("config", "print every effective value and where it came from");
  config.option(
    "-o, --output <format>",
    `${configFormats.join(", ")}; all but table can be given back as --config`,
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

  const doctor = addCommand("doctor", "compare the node with the engine, changing nothing");
  doctor.usage("network|ulimits [flags]");
  doctor.option("--check", "network: also ask the CNI plugins about the pods that run (CHECK)");
  addServeFlags(doctor, flags);
  doctor.action(async ({ check = false }: { check?: boolean }) => {
    const [subject, ...rest] = doctor.args;
    if ((subject !== "network" && subject !== "ulimits") || rest.length > 0) {
      const given = doctor.args.map((word) => JSON.stringify(word)).join(" ");
      throw new ShimError(
        "invalid",
        `command "doctor": ${given === "" ? "no subject given" : given}; it knows "network" and "ulimits"`,
      );
    }
    if (check && subject !== "network") {
      throw new ShimError("invalid", `command "doctor": --check is for "network" alone`);
    }
    await withConfig((resolved) =>
      subject === "network" ? actions.doctorNetwork(resolved, { check }) : actions.doctorUlimits(resolved),
    );
  });

  const play = addCommand("play", "run Kubernetes Pod manifests through the CRI");
  play
    .usage("[flags] file...")
    .option("--follow", "follow the logs of the containers")
    .option("--down", "remove the pods of the files instead")
    .option("--keep", "leave what was made when a pod fails")
    .option("--endpoint <endpoint>", playEndpointHelp)
    .action(async (given: { follow?: boolean; down?: boolean; keep?: boolean; endpoint?: string }) => {
      refuseServeFlags(flags, "play");
      const { args: files } = play;
      if (files.length === 0) throw new ShimError("invalid", 'command "play": needs at least one file');
      const endpoint = resolvePlayEndpoint(given.endpoint, io.environment);
      exitCode = await actions.play({
        files,
        follow: given.follow === true,
        down: given.down === true,
        keep: given.keep === true,
        endpoint,
      });
    });

  const version = addCommand("version", "print the version");
  version.action(() => {
    refuseArguments(version);
    refuseServeFlags(flags, "version");
    printVersion();
  });

  return { command: root, exitCode: () => exitCode };
}

function parseFormat(text: string): ConfigFormat {
  try {
    return enumKind(configFormats).parse(text);
  } catch (error) {
    throw ShimError.from(error).within(`flag "--output": ${JSON.stringify(text)}`);
  }
}
