/** The command line of `dockershim doctor`. */
import { ShimError } from "../../lib/errors.js";
import type { CommandParts } from "../../cli/command-parts.js";
import { addServeFlags, refuseArguments } from "../../cli/flags.js";
import { printsVersion } from "../../shim/serve/declare-serve.js";
import { nearestName } from "../../shim/config/given.js";
import { parts as allParts, type Part } from "../finding.js";

interface Given {
  readonly check?: boolean;
  readonly json?: boolean;
}

export function addDoctorCommand(commandParts: CommandParts): void {
  const { addCommand, run, serveFlags: flags, programName } = commandParts;
  const doctor = addCommand("doctor", "say what is wrong with this node, and what to type; changes nothing");
  doctor
    .usage(`${allParts.join("|")} [flags]`)
    .helpCommand(false)
    .enablePositionalOptions()
    .allowExcessArguments();
  doctor.option("--check", "network: also call CHECK of the CNI plugins for running pods");
  doctor.option("--json", "print the report as JSON");
  addServeFlags(doctor, commandParts);
  doctor.action(async ({ check = false, json = false }: Given) => {
    if (printsVersion(commandParts)) return;
    const parts = doctor.args.map(toPart);
    if (check && parts.length > 0 && !parts.includes("network"))
      throw new ShimError("invalid", 'command "doctor": --check is for "network" alone');
    await run(() => import("./doctor-command.js"), "runDoctor", { parts, check, json, flags, programName });
  });

  const summary =
    "write state, settings, last log lines and versions of this node to a file, without secrets";
  const bundle = addCommand("bundle", summary, { parent: doctor });
  bundle
    .option("-o, --output <file>", "a new file (default: dockershim-bundle-HOST-TIME.tar.gz)")
    .option("--server-log <file>", "where the server's log goes, if not to the journal");
  addServeFlags(bundle, commandParts);
  bundle.action(async ({ output, serverLog }: { output?: string; serverLog?: string }) => {
    refuseArguments(bundle);
    const options = { output, logFile: serverLog, flags, programName };
    await run(() => import("./bundle-command.js"), "runDoctorBundle", options);
  });
}

function toPart(word: string): Part {
  const part = allParts.find((one) => one === word);
  if (part !== undefined) return part;
  const nearest = nearestName(word, allParts);
  const hint = nearest === undefined ? "" : `: did you mean "${nearest}"?`;
  const known = allParts.map((one) => `"${one}"`).join(", ");
  throw new ShimError(
    "invalid",
    `command "doctor": unknown part ${JSON.stringify(word)}${hint}; the parts are ${known}`,
  );
}
