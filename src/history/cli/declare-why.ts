/** The command line of `dockershim why`. */
import { ShimError } from "../../lib/errors.js";
import type { CommandParts } from "../../cli/command-parts.js";
import { addServeFlags } from "../../cli/flags.js";
import { printsVersion } from "../../shim/serve/declare-serve.js";

interface Given {
  readonly json?: boolean;
  readonly svg?: boolean;
}

export function addWhyCommand(commandParts: CommandParts): void {
  const { addCommand, run, serveFlags: flags, programName } = commandParts;
  const why = addCommand("why", "say why a pod or container was slow, failed or ended, also when it is gone");
  why.usage("POD|CONTAINER [flags]").allowExcessArguments();
  why.option("--json", "print causes and time line as JSON");
  why.option("--svg", "print the time line as a picture");
  addServeFlags(why, commandParts);
  why.action(async ({ json = false, svg = false }: Given) => {
    if (printsVersion(commandParts)) return;
    const [wanted = "", ...others] = why.args;
    if (wanted === "" || others.length > 0)
      throw new ShimError("invalid", 'command "why": needs one name or id of a pod or container');
    if (json && svg) throw new ShimError("invalid", 'command "why": --json and --svg: use one');
    const form = json ? "json" : svg ? "svg" : "text";
    await run(() => import("./why-command.js"), "runWhy", { wanted, form, flags, programName } as const);
  });
}
