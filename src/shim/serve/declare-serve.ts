/** `dockershim serve` and `config` as commander sees them. */
import type { CommandParts, DeclarationIo } from "../../cli/command-parts.js";
import { parseFlag } from "../../cli/flag-values.js";
import { addServeFlags, isSwitchedOn, refuseArguments } from "../../cli/flags.js";
import { criDockerdVersion, type ProgramName } from "../config/option.js";
import { type ResolvedConfig, resolveConfig } from "../config/resolve.js";
import { enumKind } from "../config/value-kinds.js";
import type { ConfigFormat } from "./config-command.js";

const configFormats = ["table", "yaml", "json", "commented"] as const satisfies readonly ConfigFormat[];

/** `serve` is the default command. The flags of these commands may stand before or after the command. */
export function addServeCommands(parts: CommandParts): void {
  const { root, addCommand, run, io, serveFlags, programName } = parts;
  /** Runs `action` unless a flag asks for the version, which needs no valid configuration. */
  const withConfig = async (action: (resolved: ResolvedConfig) => Promise<void>): Promise<void> => {
    if (printsVersion(parts)) return;
    const { environment, isSocket } = io;
    const readFile = (path: string): Promise<string> => io.readFile(path);
    await action(await resolveConfig(serveFlags, environment, readFile, isSocket, programName));
  };

  const serve = addCommand("serve", "serve the CRI (the default command)");
  for (const command of [root, serve]) {
    addServeFlags(command, parts);
    command.action(async () => {
      refuseArguments(command);
      await withConfig((resolved) => run(() => import("./serve-command.js"), "runServe", resolved));
    });
  }

  const config = addCommand("config", "print every effective value and its source");
  config.option(
    "-o, --output <format>",
    `${configFormats.join(", ")}; all but table can be used as --config`,
  );
  addServeFlags(config, parts);
  config.action(async ({ output = "table" }: { output?: string }) => {
    refuseArguments(config);
    const format = parseFlag("--output", output, enumKind(configFormats));
    await withConfig((resolved) =>
      run(() => import("./config-command.js"), "runConfig", { resolved, format }),
    );
  });
}

/** Whether a flag of the server asks for the version, which is then printed, and nothing else is done. */
export function printsVersion({
  io,
  serveFlags,
  programName,
}: Pick<CommandParts, "io" | "serveFlags" | "programName">): boolean {
  const isVersion = isSwitchedOn(serveFlags, "version");
  if (isVersion) io.writeOut(versionLine(io, programName));
  else if (isSwitchedOn(serveFlags, "buildinfo")) io.writeOut(buildInfo(io, programName));
  else return false;
  return true;
}

type Build = Pick<DeclarationIo, "version" | "commit">;

export function versionLine(build: Build, name: ProgramName): string {
  return `${name} ${fullVersion(build, name)}\n`;
}

/** Installers compare cri-dockerd's version with the one that they want. */
function fullVersion({ version, commit }: Build, name: ProgramName): string {
  if (name === "dockershim") return `${version} (${commit})`;
  return `${criDockerdVersion} (dockershim ${version}, ${commit})`;
}

function buildInfo(build: Build, name: ProgramName): string {
  const { version, commit } = build;
  const [its, language] =
    name === "dockershim"
      ? [version, `Node.js version: ${process.version}`]
      : [fullVersion(build, name), `Go version: none, Node.js ${process.version}`];
  return `Program: ${name}\nVersion: ${its}\nGitCommit: ${commit}\n${language}\n`;
}
