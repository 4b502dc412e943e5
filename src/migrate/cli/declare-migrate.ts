/** The command line of `dockershim migrate`. */
import { type Command, Option } from "commander";
import { ShimError } from "../../lib/errors.js";
import { dockerEndpointKind } from "../../shim/config/endpoints.js";
import { enumKind, pathKind } from "../../shim/config/value-kinds.js";
import { type Target, targets, usesDocker } from "../kubelet/target.js";
import { defaultProgram } from "../plan/shim-unit.js";
import type { CommandParts } from "../../cli/command-parts.js";
import { noSubject, parseFlag, wrongFlag, pageOrJson } from "../../cli/flag-values.js";
import { refuseArguments } from "../../cli/flags.js";
import type { MigrateCheckOptions } from "./migrate-command.js";
import { type NetworkPluginName, networkPlugins } from "../rehearse/network-plugins.js";
import { options as table } from "../../shim/config/options.js";

interface Given {
  readonly to?: string;
  readonly output?: string;
  readonly root?: string;
  readonly dockerEndpoint?: string;
  readonly kubeletVersion?: string;
  readonly program?: string;
  readonly back?: boolean;
  readonly write?: boolean;
  readonly undo?: string;
}

export function addMigrateCommands(parts: CommandParts): void {
  const { addCommand, refuseServeFlags, run } = parts;
  const migrate = addCommand("migrate", "judge, rehearse and change the runtime of a node");
  migrate.usage("check|plan|rehearse [flags]").helpCommand(false).enablePositionalOptions();
  migrate.allowExcessArguments().action(() => {
    throw noSubject("migrate", migrate.args[0], '"check", "plan" or "rehearse"');
  });
  const add = (name: string, summary: string, runtimes: readonly string[]): Command => {
    const command = addCommand(name, summary, { parent: migrate });
    const to = new Option("--to <runtime>", "dockershim is this program (the default)");
    // For the help and completions; a plan to another runtime is refused with the reason.
    to.argChoices = [...runtimes];
    command
      .addOption(to)
      .option("-o, --output <format>", "page or json (default: page)")
      .option("--root <directory>", "the root directory of the node's files (default: /)")
      .option("--kubelet-version <version>", "as 1.23.17 (default: what the kubelet's program answers)");
    return command;
  };

  const check = add(
    "check",
    "report what a change of the runtime does to this node; changes nothing",
    targets,
  );
  check.option(
    "--docker-endpoint <endpoint>",
    "the engine (default: the runtime's, else DOCKER_HOST, else /var/run/docker.sock; with --root, below it)",
  );
  check.action(async (given: Given) => {
    refuseServeFlags("migrate");
    refuseArguments(check);
    const { root: directory, ...rest } = common(given);
    const endpoint = given.dockerEndpoint;
    const parsed = endpoint ? parseFlag("--docker-endpoint", endpoint, dockerEndpointKind) : undefined;
    const to = target(given.to) ?? "dockershim";
    const options = { ...rest, root: directory, to, endpoint: parsed };
    await run(() => import("./migrate-command.js"), "runMigrateCheck", options);
  });

  const plan = add(
    "plan",
    "print the edits of a change of the runtime as a diff, and the commands",
    targets.filter(usesDocker),
  );
  plan
    .option("--back", "the edits that return (default --to: the runtime of before)")
    .option("--write", "write the edits, and print the line that undoes them")
    .option("--undo <directory>", "take back what --write wrote; stands without --to, --back and --write")
    .option("--program <path>", `where this program is installed (default: ${defaultProgram})`);
  plan.action(async (given: Given) => {
    refuseServeFlags("migrate");
    refuseArguments(plan);
    const undo = given.undo === undefined ? undefined : parseFlag("--undo", given.undo, pathKind);
    if (undo !== undefined && (given.write === true || given.back === true || given.to !== undefined))
      throw new ShimError("invalid", 'flag "--undo": stands alone');
    const program = parseFlag("--program", given.program ?? defaultProgram, pathKind);
    const { back = false, write = false } = given;
    const options = { ...common(given), to: target(given.to), program, back, write, undo };
    await run(() => import("./migrate-command.js"), "runMigratePlan", options);
  });

  addRehearseCommand(migrate, parts);
}

function target(text: string | undefined): Target | undefined {
  return text === undefined ? undefined : parseFlag("--to", text, enumKind(targets));
}

/** As `kubectl get nodes` shows it: builds of providers have more after the number, as `v1.21.14-eks-ba74326`. */
const nodeVersion = /^v?1\.\d{1,3}(\.\d+([-+][\w.+-]{1,64})?)?$/;

function common(given: Given): Pick<MigrateCheckOptions, "output" | "root" | "kubeletVersion"> {
  const { kubeletVersion } = given;
  if (kubeletVersion !== undefined && !nodeVersion.test(kubeletVersion))
    throw wrongFlag("--kubelet-version", kubeletVersion, "must be a version, as 1.23.17");
  return {
    output: parseFlag("--output", given.output ?? "page", enumKind(["page", "json"])),
    root: parseFlag("--root", given.root ?? "/", pathKind),
    kubeletVersion,
  };
}

interface GivenFlags {
  readonly as?: "dockershim" | "cri-dockerd";
  readonly networkPlugin: "auto" | NetworkPluginName;
  readonly cniConfDir?: string;
  readonly cniBinDir: string;
  readonly output: "page" | "json";
  readonly dockerEndpoint?: string;
  readonly criDockerd?: string;
  readonly anyway?: boolean;
}

/** `dockershim migrate rehearse RECORDING` as commander sees it. */
function addRehearseCommand(migrate: Command, parts: CommandParts): void {
  const summary = "rehearse the way there and back on a scratch host, with the pods of a recording";
  const command = parts.addCommand("rehearse", summary, { parent: migrate }).allowExcessArguments();
  command
    .usage("[flags] RECORDING")
    .addOption(
      new Option(
        "--as <program>",
        "the runtime to imitate: the dockershim inside the kubelet, or cri-dockerd (default: the recorded one)",
      ).choices(["dockershim", "cri-dockerd"]),
    )
    .option(
      "--docker-endpoint <endpoint>",
      "engine of the scratch host (default: unix:///var/run/docker.sock)",
    )
    .addOption(
      new Option(
        "--network-plugin <name>",
        "network of the pods; auto: cni where its plugins are installed, else no-op",
      )
        .choices(["auto", ...networkPlugins])
        .default("auto"),
    )
    .option("--cni-conf-dir <path>", "network list for cni (default: an example of its own)")
    .option("--cni-bin-dir <paths>", "CNI plugins, separated by commas", table.cniBinDirs.default)
    .option(
      "--cri-dockerd <path>",
      "a cri-dockerd, which is started for the way back, asked for the pods, and removes some",
    )
    .option("--anyway", "rehearse although the engine has pods")
    .addOption(pageOrJson())
    .action(async ({ output, cniBinDir, ...given }: GivenFlags) => {
      parts.refuseServeFlags("migrate");
      const [recording, ...rest] = command.args;
      if (recording === undefined || rest.length > 0)
        throw new ShimError("invalid", 'command "migrate rehearse": name one recording');
      const anyway = given.anyway === true;
      const cniBinDirs = cniBinDir.split(",").filter((path) => path !== "");
      const options = { ...given, cniBinDirs, recording, anyway, format: output };
      await parts.run(() => import("./rehearse-command.js"), "runRehearse", options);
    });
}
