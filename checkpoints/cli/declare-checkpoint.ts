/** `dockershim checkpoint …` as commander sees it. */
import { type Command, Option } from "commander";
import { ShimError } from "../../src/lib/errors.js";
import type { CommandParts } from "../../src/cli/command-parts.js";
import { noSubject, pageOrJson } from "../../src/cli/flag-values.js";
import { refuseArguments } from "../../src/cli/flags.js";
import { checkpointPrograms, type CheckpointProgram, type CheckpointTask } from "./checkpoint-options.js";

interface GivenFlags {
  readonly directory?: readonly string[];
  readonly output?: string;
  readonly outputDirectory?: string;
  readonly to?: CheckpointProgram;
  readonly dockerEndpoint?: string;
  readonly dryRun?: boolean;
  readonly anyway?: boolean;
}

export function addCheckpointCommands(parts: CommandParts): void {
  const parent = parts.addCommand("checkpoint", "list, check, convert and repair checkpoint files");
  parent.usage("ls|verify|convert|repair [flags]").enablePositionalOptions();
  parent.allowExcessArguments().action(() => {
    parts.refuseServeFlags("checkpoint");
    throw noSubject("checkpoint", parent.args[0], '"ls", "verify", "convert" or "repair"');
  });
  const add = (name: string, summary: string, taskOf: (flags: GivenFlags) => CheckpointTask): Command => {
    const command = parts.addCommand(name, summary, { parent }).allowExcessArguments();
    command.option(
      "--directory <path>",
      "directory of checkpoint files; may be repeated (default: /var/lib/dockershim/sandbox and /var/lib/cri-dockerd/sandbox, where they exist)",
      (path: string, paths: readonly string[] | undefined) => [...(paths ?? []), path],
    );
    command.addOption(pageOrJson());
    return command.action(async (flags: GivenFlags) => {
      parts.refuseServeFlags("checkpoint");
      refuseArguments(command);
      const { directory = [], output } = flags;
      const format = output === "json" ? "json" : "page";
      const options = { task: taskOf(flags), directories: directory, format } as const;
      await parts.run(() => import("./checkpoint-command.js"), "runCheckpoint", options);
    });
  };
  add("ls", "list the checkpoints of sandboxes", () => ({ kind: "ls" }));
  add("verify", "check every file", () => ({ kind: "verify" }));
  add("convert", "write the files for dockershim or for cri-dockerd", ({ to, outputDirectory, anyway }) => {
    if (to === undefined)
      throw new ShimError(
        "invalid",
        'command "checkpoint convert": needs --to dockershim or --to cri-dockerd',
      );
    return {
      kind: "convert",
      to,
      anyway: anyway === true,
      ...(outputDirectory === undefined ? {} : { output: outputDirectory }),
    };
  })
    .addOption(
      new Option("--to <program>", "the program that is to read them").choices([...checkpointPrograms]),
    )
    .option("--output-directory <path>", "write there; made when it is missing (default: in place)")
    .option("--anyway", "write although dockershim or cri-dockerd uses the directory");
  const repairSummary = "write missing and corrupt checkpoints again; bad files are kept in quarantine";
  add("repair", repairSummary, (flags) => {
    const { to, dockerEndpoint, dryRun, anyway } = flags;
    return {
      kind: "repair",
      dryRun: dryRun === true,
      anyway: anyway === true,
      ...(to === undefined ? {} : { to }),
      ...(dockerEndpoint === undefined ? {} : { dockerEndpoint }),
    };
  })
    .addOption(
      new Option(
        "--to <program>",
        "whose checksum new files get (default: by the name of the directory)",
      ).choices([...checkpointPrograms]),
    )
    .option(
      "--docker-endpoint <endpoint>",
      "engine that has the sandboxes; without it, only checksums are repaired",
    )
    .option("--dry-run", "print what would be done; change nothing")
    .option("--anyway", "write although dockershim or cri-dockerd uses the directory");
}
