import type { Command } from "commander";
import type { Environment } from "../shim/config/given.js";

/** What the declarations of commands in files of their own need of the command line. */
export interface CommandParts {
  /** Declares a command below `parent`, or below the program; a hidden one is not in the help. */
  readonly addCommand: (
    name: string,
    summary: string,
    options?: { readonly hidden?: boolean; readonly parent?: Command },
  ) => Command;
  /** Throws for flags of the server before the command. */
  readonly refuseServeFlags: (command: string) => void;
  /** The action has ended with this exit code. */
  readonly ended: (exitCode: number) => void;
  readonly environment: Environment;
}
