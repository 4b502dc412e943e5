/** `dockershim install`, `uninstall` and `wipe` as commander sees them. */
import type { Command } from "commander";
import { ShimError } from "../../lib/errors.js";
import type { CommandParts } from "../../cli/command-parts.js";
import { completionScript } from "../../cli/completion.js";
import { parseFlag } from "../../cli/flag-values.js";
import { addServeFlags, refuseArguments } from "../../cli/flags.js";
import { pathKind } from "../../shim/config/value-kinds.js";
import { defaultPrefix } from "../wanted-files.js";

interface Given {
  readonly dryRun?: boolean;
  readonly root?: string;
  readonly prefix?: string;
  readonly ociRuntime?: boolean;
}

interface GivenToWipe {
  readonly dryRun?: boolean;
  readonly force?: boolean;
  readonly claims?: boolean;
}

const onlyPrint = "print what would be done; change nothing";

export function addInstallCommands(parts: CommandParts): void {
  const { root: program, addCommand, run, programName, serveFlags, refuseServeFlags } = parts;
  const addRoot = (command: Command): Command =>
    command
      .option("--dry-run", onlyPrint)
      .option("--root <directory>", "the root directory of the node, as of an image (default: /)");

  const install = addRoot(addCommand("install", "install this executable on a node without a package"));
  install.option("--prefix <directory>", `where bin/dockershim is written (default: ${defaultPrefix})`);
  install.option("--oci-runtime", "also name dockershim-runc to Docker, in daemon.json, and reload Docker");
  install.action(
    async ({ dryRun = false, root = "/", prefix = defaultPrefix, ociRuntime = false }: Given) => {
      refuseServeFlags("install");
      refuseArguments(install);
      const options = {
        dryRun,
        root: parseFlag("--root", root, pathKind),
        prefix: parseFlag("--prefix", prefix, pathKind),
        ociRuntime,
        completions: {
          bash: completionScript(program, "bash"),
          zsh: completionScript(program, "zsh"),
          fish: completionScript(program, "fish"),
        },
      };
      await run(() => import("./install-command.js"), "runInstall", options);
    },
  );

  const uninstall = addRoot(addCommand("uninstall", 'remove what "install" wrote; pods keep running'));
  uninstall.action(async ({ dryRun = false, root = "/" }: Given) => {
    refuseServeFlags("uninstall");
    refuseArguments(uninstall);
    const options = { dryRun, root: parseFlag("--root", root, pathKind) };
    await run(() => import("./uninstall-command.js"), "runUninstall", options);
  });

  const wipe = addCommand("wipe", "remove all pods, and what they and this program left on the node");
  wipe
    .option("--dry-run", onlyPrint)
    .option("--force", "also while pods run")
    .option("--claims", "also the data of persistentVolumeClaims of play");
  addServeFlags(wipe, parts);
  wipe.action(async ({ dryRun = false, force = false, claims = false }: GivenToWipe) => {
    refuseArguments(wipe);
    if (serveFlags.some(({ name }) => name === "read-only"))
      throw new ShimError("invalid", 'command "wipe": --read-only has no meaning for it; use --dry-run');
    const options = { programName, flags: serveFlags, dryRun, force, claims };
    await run(() => import("./wipe-command.js"), "runWipe", options);
  });
}
