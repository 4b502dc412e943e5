/** `dockershim serve`, `config` and `doctor` as commander sees them. */
import { ShimError } from "../../lib/errors.js";
import type { CommandParts, DeclarationIo } from "../../cli/command-parts.js";
import { parseFlag } from "../../cli/flag-values.js";
import { addServeFlags, isSwitchedOn, refuseArguments } from "../../cli/flags.js";
import { type ResolvedConfig, resolveConfig } from "../config/resolve.js";
import { enumKind } from "../config/value-kinds.js";
import type { ConfigFormat } from "./config-command.js";

const configFormats = ["table", "yaml", "json", "commented"] as const satisfies readonly ConfigFormat[];

/** `serve` is the default command. The flags of these commands may stand before or after the command. */
export function addServeCommands({ root, addCommand, run, io, serveFlags }: CommandParts): void {
  /** Runs `action` unless a flag asks for the version, which needs no valid configuration. */
  const withConfig = async (action: (resolved: ResolvedConfig) => Promise<void>): Promise<void> => {
    if (isSwitchedOn(serveFlags, "version")) {
      io.writeOut(versionLine(io));
    } else if (isSwitchedOn(serveFlags, "buildinfo")) {
      io.writeOut(`Program: dockershim\nVersion: ${io.version}\nGitCommit: ${io.commit}\n`);
      io.writeOut(`Node.js version: ${process.version}\n`);
    } else {
      const { environment } = io;
      await action(await resolveConfig(serveFlags, environment, (path) => io.readFile(path), io.isSocket));
    }
  };

  const serve = addCommand("serve", "serve the CRI (the default command)");
  for (const command of [root, serve]) {
    addServeFlags(command, serveFlags);
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
  addServeFlags(config, serveFlags);
  config.action(async ({ output = "table" }: { output?: string }) => {
    refuseArguments(config);
    const format = parseFlag("--output", output, enumKind(configFormats));
    await withConfig((resolved) =>
      run(() => import("./config-command.js"), "runConfig", { resolved, format }),
    );
  });

  const doctor = addCommand("doctor", "compare the node with the engine; changes nothing");
  doctor.usage("network|reach|ulimits [flags]");
  doctor.option("--check", "network: also call CHECK of the CNI plugins for running pods");
  addServeFlags(doctor, serveFlags);
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
      if (subject === "network")
        return run(() => import("./doctor-network.js"), "runDoctorNetwork", { resolved, check });
      if (subject === "reach") return run(() => import("./doctor-reach.js"), "runDoctorReach", resolved);
      return run(() => import("./doctor-ulimits.js"), "runDoctorUlimits", resolved);
    });
  });
}

export function versionLine({ version, commit }: Pick<DeclarationIo, "version" | "commit">): string {
  return `dockershim ${version} (${commit})\n`;
}
