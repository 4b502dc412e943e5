/** The command line as commander sees it. Actions are injected; flags come from the table in `config`. */
import { Option, Command, CommanderError } from "commander";
import { ShimError } from "../lib/errors.js";
import type { Environment } from "../config/given.js";
import { type GivenFlag, type ResolvedConfig, resolveConfig } from "../config/resolve.js";
import { type PlayOutput, playOutputs } from "../../play/view/play-outputs.js";
import { durationKind, enumKind } from "../config/value-kinds.js";
import { type ConfigFormat, configFormats, renderConfig } from "./config-command.js";
import {
  addServeFlags,
  isSwitchedOn,
  normalizeArguments,
  refuseArguments,
  refuseServeFlags,
  usageErrorsOf,
} from "./flags.js";
import type { UnixEndpoint } from "../config/endpoints.js";
import { addDiffCommand, type DiffActions } from "./diff-commands.js";
import { addCheckpointCommands, type CheckpointActions } from "./checkpoint-commands.js";
import { completionScript, shells } from "./completion.js";
import type { CommandParts } from "./command-parts.js";
import { playEndpointHelp, resolvePlayEndpoint } from "./play-endpoint.js";
import { addPodCommands, type PodActions } from "./pod-commands.js";
import { asDockerPlugin, pluginMetadata, readPluginCall } from "./docker-plugin.js";
import { addRelayCommands, type RelayActions } from "./relay-commands.js";
import { addMigrateCommands, type MigrateActions } from "./migrate-commands.js";

/**
 * The actions of the commands return the exit code. A thrown error becomes one line on standard error and
 * code 1.
 */
export interface Actions extends DiffActions, RelayActions, MigrateActions, CheckpointActions, PodActions {
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
  readonly isSocket?: (path: string) => Promise<boolean>;
  writeOut(text: string): void;
  writeError(text: string): void;
}

export interface Program {
  readonly command: Command;
  /** The exit code of the action, after `command` was parsed. */
  exitCode(): number;
}

/**
 * The command tree. `serve` is the default command. The flags of `serve` and `config` may stand before or
 * after the command. Most callers use `runCommandLine`.
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
      // runCommandLine() prints the error on one line.
      writeErr: () => undefined,
    });
  root.exitOverride(usageErrorsOf(root));
  const addCommand: CommandParts["addCommand"] = (name, summary, { hidden = false, parent = root } = {}) => {
    const command = parent.command(name, { hidden }).summary(summary).description(summary);
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
      exitCode = await action(
        await resolveConfig(flags, io.environment, (path) => io.readFile(path), io.isSocket),
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
  doctor.usage("network|ulimits [flags]");
  doctor.option("--check", "network: also call CHECK of the CNI plugins for running pods");
  addServeFlags(doctor, flags);
  doctor.action(async ({ check = false }: { check?: boolean }) => {
    const [subject, ...rest] = doctor.args;
    if ((subject !== "network" && subject !== "ulimits") || rest.length > 0) {
      const given = doctor.args.map((word) => JSON.stringify(word)).join(" ");
      throw new ShimError(
        "invalid",
        `command "doctor": ${given === "" ? "no subject given" : given}; use "network" or "ulimits"`,
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
    .option("-d, --detach", "return, and leave the pods to the supervisor of the socket")
    .option("--watch", "apply the files again when they change")
    .option("--supervise", "be the supervisor: keep the pods of all plays that were detached")
    .option("--follow", "follow the logs of the containers")
    .option("--fast", "restart failed containers after a tenth of the kubelet's times")
    .addOption(
      new Option("-o, --output <format>", "how to print the pods").choices(playOutputs).default("table"),
    )
    .option("--timeline <file>", "write an SVG of all steps at the end")
    .option("--down", "remove the pods of the files instead")
    .option("--wait [time]", "return when all pods are ready and all jobs complete, or after that time (5m)")
    .option("--keep", "keep what was made when a pod fails")
    .option("-R, --recursive", "also read the directories below the given ones")
    .option(
      "--replicas <count>",
      "number of pods of each workload, or NAME=NUMBER for one; may be repeated",
      (count: string, before: readonly string[] | undefined) => [...(before ?? []), count],
    )
    .option("--schedule", "run CronJobs by their schedule instead of once")
    .option("--strict", "refuse what is otherwise passed over")
    .option("--local-volumes", "put empty local volumes in place of those of storage systems")
    .option("--endpoint <endpoint>", playEndpointHelp)
    .action(async (given: PlayFlags) => {
      refuseServeFlags(flags, "play");
      const { args: files } = play;
      checkPlayFlags(given, files);
      const endpoint = resolvePlayEndpoint(given.endpoint, io.environment);
      exitCode = await actions.play({
        files,
        follow: given.follow === true,
        down: given.down === true,
        keep: given.keep === true,
        waitMs: given.wait === undefined ? undefined : waitTime(given.wait),
        fast: given.fast === true,
        output: given.output ?? "table",
        timeline: given.timeline,
        recursive: given.recursive === true,
        replicas: given.replicas ?? [],
        schedule: given.schedule === true,
        strict: given.strict === true,
        localVolumes: given.localVolumes === true,
        detach: given.detach === true,
        watch: given.watch === true,
        supervise: given.supervise === true,
        endpoint,
      });
    });

  const parts: CommandParts = {
    addCommand,
    refuseServeFlags: (name) => {
      refuseServeFlags(flags, name);
    },
    ended: (code) => {
      exitCode = code;
    },
    environment: io.environment,
  };
  addDiffCommand(actions, parts);
  addRelayCommands(actions, parts);
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

  return { command: root, exitCode: () => exitCode };
}

function checkPlayFlags(given: PlayFlags, files: readonly string[]): void {
  const exclusive = (["down", "detach", "watch", "supervise"] as const).filter(
    (name) => given[name] === true,
  );
  const [first, second] = [
    ...exclusive,
    ...(given.wait !== undefined && given.detach !== true ? ["wait"] : []),
  ];
  const refuse = (reason: string): never => {
    throw new ShimError("invalid", `command "play": ${reason}`);
  };
  if (second !== undefined) refuse(`--${first ?? ""} and --${second} exclude each other`);
  if (given.detach === true && given.follow === true) refuse("--detach and --follow exclude each other");
  if (given.supervise === true ? files.length > 0 : files.length === 0)
    refuse(given.supervise === true ? "--supervise takes no files" : "needs at least one file");
}

/** Milliseconds. `text` is empty for `--wait` alone. */
function waitTime(text: string): number {
  try {
    return durationKind().parse(text === "" ? "5m" : text);
  } catch (error) {
    throw ShimError.from(error).within(`flag "--wait": ${JSON.stringify(text)}`);
  }
}

function parseFormat(text: string): ConfigFormat {
  try {
    return enumKind(configFormats).parse(text);
  } catch (error) {
    throw ShimError.from(error).within(`flag "--output": ${JSON.stringify(text)}`);
  }
}

export interface PlayOptions {
  readonly files: readonly string[];
  /** Follow the containers' logs until they end or the user interrupts. */
  readonly follow: boolean;
  /** Remove the pods of the files instead of running them. */
  readonly down: boolean;
  /** Leave what was made when a pod fails. */
  readonly keep: boolean;
  /** Return when all pods are ready and all jobs complete, at most after this time. */
  readonly waitMs: number | undefined;
  /** Restart failed containers sooner than a kubelet. */
  readonly fast: boolean;
  readonly output: PlayOutput;
  /** Path of an SVG. */
  readonly timeline: string | undefined;
  /** Where the CRI is served. */
  readonly endpoint: UnixEndpoint;
  readonly recursive: boolean;
  /** `3` or `web=3`. */
  readonly replicas: readonly string[];
  readonly schedule: boolean;
  readonly strict: boolean;
  readonly localVolumes: boolean;
  /** Leave the pods to the supervisor of the endpoint. */
  readonly detach: boolean;
  /** Apply the files again when they change. */
  readonly watch: boolean;
  /** Be the supervisor of the endpoint. */
  readonly supervise: boolean;
}

interface PlayFlags {
  readonly detach?: boolean;
  readonly watch?: boolean;
  readonly supervise?: boolean;
  readonly follow?: boolean;
  readonly down?: boolean;
  readonly keep?: boolean;
  readonly wait?: string;
  readonly fast?: boolean;
  readonly output?: PlayOutput;
  readonly timeline?: string;
  readonly recursive?: boolean;
  readonly replicas?: readonly string[];
  readonly schedule?: boolean;
  readonly strict?: boolean;
  readonly localVolumes?: boolean;
  readonly endpoint?: string;
}

/**
 * Runs the command of `argv` (without node and script) and returns the exit code: that of the action, or 1
 * after one line on standard error. Only bugs of this program are printed with a stack.
 */
export async function runCommandLine(
  argv: readonly string[],
  actions: Actions,
  io: CommandIo,
  build: BuildInfo,
): Promise<number> {
  const program = buildProgram(actions, io, build);
  try {
    const plugin = readPluginCall(argv);
    if (plugin?.kind === "metadata") {
      io.writeOut(pluginMetadata(build.version));
      return 0;
    }
    if (plugin !== undefined) asDockerPlugin(program.command);
    await program.command.parseAsync(normalizeArguments(plugin?.argv ?? argv), { from: "user" });
    return program.exitCode();
  } catch (error) {
    if (error instanceof CommanderError && error.exitCode === 0) return 0;
    io.writeError(`dockershim: ${describeFailure(error)}\n`);
    return 1;
  }
}

function describeFailure(error: unknown): string {
  if (error instanceof ShimError && error.kind !== "internal")
    return error.message.replaceAll(/\s*\n\s*/g, " ");
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
