/** Runs the command line with actions that only note what they were called with. */
import type { MigrateCheckOptions, MigratePlanOptions } from "../../../src/migrate/cli/migrate-commands.js";
import { runCommandLine } from "../../../src/main/program.js";
import type { PlayOptions } from "../../../src/play/cli/play-commands.js";
import type { DiffOptions } from "../../../src/compare/cli/diff-commands.js";
import type { CheckpointOptions } from "../../../checkpoints/cli/checkpoint-commands.js";
import type { RehearseOptions } from "../../../src/migrate/cli/rehearse-commands.js";
import type { ResolvedConfig } from "../../../src/shim/config/resolve.js";

export interface Outcome {
  readonly exitCode: number;
  readonly out: string;
  readonly err: string;
  readonly served?: ResolvedConfig;
  readonly played?: PlayOptions;
  readonly diffed?: DiffOptions;
  /** What other actions were called with, by their names. */
  readonly acted: Readonly<Record<string, unknown>>;
  readonly checked?: MigrateCheckOptions;
  readonly planned?: MigratePlanOptions;
  readonly checkpoint?: CheckpointOptions;
  readonly rehearsed?: RehearseOptions;
}

export async function run(
  line: string | readonly string[],
  rule: {
    environment?: Record<string, string>;
    files?: Record<string, string>;
    serve?: () => Promise<number>;
  } = {},
): Promise<Outcome> {
  const argv = typeof line === "string" ? line.split(/\s+/).filter((part) => part !== "") : line;
  let out = "";
  let err = "";
  const noted: {
    served?: ResolvedConfig;
    played?: PlayOptions;
    diffed?: DiffOptions;
    checked?: MigrateCheckOptions;
    planned?: MigratePlanOptions;
    checkpoint?: CheckpointOptions;
    rehearsed?: RehearseOptions;
  } = {};
  const acted: Record<string, unknown> = {};
  const note = (action: string, given: unknown): Promise<number> => {
    acted[action] = given;
    return Promise.resolve(9);
  };
  const exitCode = await runCommandLine(
    argv,
    {
      serve: (resolved) => {
        noted.served = resolved;
        return rule.serve?.() ?? Promise.resolve(0);
      },
      doctorNetwork: () => Promise.resolve(0),
      doctorReach: () => Promise.resolve(6),
      doctorUlimits: () => Promise.resolve(5),
      record: (options) => note("record", options),
      shadow: (options) => note("shadow", options),
      replay: (options) => note("replay", options),
      pod: (request, endpoint) => note("pod", { ...request, endpoint }),
      forward: (options) => note("forward", options),
      dial: (address) => note("dial", address),
      showReport: (path) => note("showReport", path),
      keepLink: (paths) => note("keepLink", paths),
      observeCalls: (task) => note("observeCalls", task),
      migrateCheck: (options) => {
        noted.checked = options;
        return Promise.resolve(2);
      },
      migratePlan: (options) => {
        noted.planned = options;
        return Promise.resolve(2);
      },
      play: (options) => {
        noted.played = options;
        return Promise.resolve(7);
      },
      diff: (options) => {
        noted.diffed = options;
        return Promise.resolve(2);
      },
      checkpoint: (options) => {
        noted.checkpoint = options;
        return Promise.resolve(2);
      },
      rehearse: (options) => {
        noted.rehearsed = options;
        return Promise.resolve(2);
      },
    },
    {
      environment: rule.environment ?? {},
      readFile: (path) => {
        const content = rule.files?.[path];
        return content === undefined
          ? Promise.reject(new Error(`no file ${path}`))
          : Promise.resolve(content);
      },
      writeOut: (text) => {
        out += text;
      },
      writeError: (text) => {
        err += text;
      },
    },
    { version: "1.2.3", commit: "abc" },
  );
  return { exitCode, out, err, acted, ...noted };
}
