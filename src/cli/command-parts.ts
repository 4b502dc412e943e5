import type { Command } from "commander";
import type { ProgramName } from "../shim/config/option.js";
import type { GivenFlag } from "../shim/config/resolve.js";
import type { ProcessIo } from "./process-io.js";

/** The work of a command. Returns the exit code; an error becomes one line on standard error and code 1. */
export type Action = (options: never, io: ProcessIo) => Promise<number>;

/**
 * Loads a module and calls its function `name`. A late import, as in `run(() => import("./x.js"), "runX", options)`:
 * a command then loads no module that only another one needs.
 */
export type RunAction<Result> = <Name extends string, Module extends Readonly<Record<Name, Action>>>(
  load: () => Promise<Module>,
  name: Name,
  options: Parameters<Module[Name]>[0],
) => Promise<Result>;

/** The members of the process that the declarations of commands use. */
export type DeclarationIo = Pick<
  ProcessIo,
  "environment" | "version" | "commit" | "writeOut" | "writeError" | "readFile" | "isSocket" | "onSignal"
>;

/** What the declarations of commands need of the command line. */
export interface CommandParts {
  readonly programName: ProgramName;
  /** The program, which is the default command, too. */
  readonly root: Command;
  /** Declares a command below `parent`, or below the program; a hidden one is not in the help. */
  readonly addCommand: (
    name: string,
    summary: string,
    options?: { readonly hidden?: boolean; readonly parent?: Command },
  ) => Command;
  /** Does the work of the command. */
  readonly run: RunAction<void>;
  readonly io: DeclarationIo;
  /** The flags of the server that were given, in order, also before the name of another command. */
  readonly serveFlags: GivenFlag[];
  /** Throws for flags of the server before the command. */
  readonly refuseServeFlags: (command: string) => void;
}
