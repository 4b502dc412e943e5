/** Runs the command line with actions that are only noted, and not loaded. */
import type { DeclarationIo, RunAction } from "../../../src/cli/command-parts.js";
import { actionsOn } from "../../../src/cli/run-program.js";
import type { ProcessIo } from "../../../src/cli/process-io.js";
import { runCommandLine } from "../../../src/main/program.js";
import type { MigrateCheckOptions } from "../../../src/migrate/cli/migrate-command.js";
import type { PlayOptions } from "../../../src/play/cli/play-context.js";
import type { ResolvedConfig } from "../../../src/shim/config/resolve.js";

export interface Outcome {
  /** From before the module of the action is loaded. */
  readonly handlesSignals: boolean;
  readonly exitCode: number;
  readonly out: string;
  readonly err: string;
  /** The options of the action, by its name. */
  readonly acted: Readonly<Record<string, unknown>> & {
    readonly runServe?: ResolvedConfig;
    readonly runPlay?: PlayOptions;
    readonly runMigrateCheck?: MigrateCheckOptions;
  };
}

/** What an action answers. */
export const actionCode = 9;

export async function run(
  line: string | readonly string[],
  rule: {
    environment?: Record<string, string>;
    files?: Record<string, string>;
    /** In place of the action. */
    act?: () => Promise<number>;
    /** The action runs. It finds only what declarations have of a process. */
    isReal?: boolean;
  } = {},
): Promise<Outcome> {
  const argv = typeof line === "string" ? line.split(/\s+/).filter((part) => part !== "") : line;
  let out = "";
  let err = "";
  let handlesSignals = false;
  const files = new Map(Object.entries(rule.files ?? {}));
  const io: DeclarationIo = {
    version: "1.2.3",
    commit: "abc",
    environment: rule.environment ?? {},
    readFile: (path) => {
      const content = files.get(path);
      // As a pipe, which is empty afterwards.
      if (content !== undefined) files.set(path, "");
      return content === undefined ? Promise.reject(new Error(`no file ${path}`)) : Promise.resolve(content);
    },
    isSocket: () => Promise.resolve(false),
    writeOut: (text) => {
      out += text;
    },
    writeError: (text) => {
      err += text;
    },
    onSignal: () => {
      handlesSignals = true;
    },
  };
  const acted: Record<string, unknown> = {};
  const act: RunAction<number> = (_, name, options) => {
    acted[name] = options;
    return rule.act?.() ?? Promise.resolve(actionCode);
  };
  const exitCode = await runCommandLine(argv, io, rule.isReal === true ? actionsOn(io as ProcessIo) : act);
  return { exitCode, out, err, acted, handlesSignals };
}
