/** `dockershim diff` as commander sees it. */
import { ShimError } from "../../lib/errors.js";
import type { CommandParts } from "../../cli/command-parts.js";
import { pageOrJson, wrongFlag } from "../../cli/flag-values.js";
import type { DiffOptions } from "./diff-command.js";

export function addDiffCommand({ addCommand, refuseServeFlags, run }: CommandParts): void {
  const command = addCommand("diff", "show what two CRI servers answer differently");
  command
    .usage("[flags] LEFT RIGHT")
    .addOption(pageOrJson())
    .option("--pod <namespace/name>", "compare this pod and its containers alone (default: all)")
    .option("--all", "show intended differences one by one (default: counted by their key)")
    .action(async (given: { output: DiffOptions["format"]; pod?: string; all?: boolean }) => {
      refuseServeFlags("diff");
      const [left, right, ...rest] = command.args;
      if (left === undefined || right === undefined || rest.length > 0)
        throw new ShimError("invalid", 'command "diff": needs the endpoints of two CRI servers');
      const pod = given.pod === undefined ? {} : { pod: parsePod(given.pod) };
      const options = { endpoints: [left, right], all: given.all === true, format: given.output } as const;
      await run(() => import("./diff-command.js"), "runDiff", { ...options, ...pod });
    });
}

function parsePod(text: string): { readonly namespace: string; readonly name: string } {
  const [namespace = "", name = "", ...rest] = text.split("/");
  if (namespace !== "" && name !== "" && rest.length === 0) return { namespace, name };
  throw wrongFlag("--pod", text, "must be NAMESPACE/NAME");
}
