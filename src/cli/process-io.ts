/** The process, as commands see it. An action asks for the members that it uses: `Pick<ProcessIo, "writeOut">`. */
import type { Environment } from "../shim/config/given.js";

export interface ProcessIo {
  readonly version: string;
  /** The git checkout's, else `unknown`. */
  readonly commit: string;
  readonly environment: Environment;
  /** The arguments, without those of Node.js and without the script. */
  readonly argv: readonly string[];
  /** Program and arguments that start this program again, without `argv`. */
  readonly self: readonly [program: string, ...args: string[]];
  /** Node.js opens it at the first read of this member. */
  readonly stdin: NodeJS.ReadStream;
  readonly stdout: NodeJS.WriteStream;
  readonly stderr: NodeJS.WriteStream;
  /** Whether standard output is a terminal. */
  readonly isTerminal: boolean;
  /**
   * Aborts when the output has no reader any more, and at SIGINT and SIGTERM, which end the process until this
   * member is read for the first time. Also at SIGHUP, of a closed terminal, which has no effect on processes that do
   * not read this member.
   */
  readonly signal: AbortSignal;
  /** `text` with the commands that it names as this process was called: see docker-plugin.ts. */
  readonly commandNames: (text: string) => string;
  writeOut(text: string): void;
  writeError(text: string): void;
  /** For configuration files. */
  readFile(path: string): Promise<string>;
  isSocket(path: string): Promise<boolean>;
  /** Calls `listener` for each SIGTERM and SIGINT with its name, in place of the end of the process. */
  onSignal(listener: (name: string) => void): void;
  /** Ends the process even if something hangs. */
  endAtOnce(): void;
}
