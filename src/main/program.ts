/** The command line with all commands. */
import type { CommandParts, DeclarationIo, RunAction } from "../cli/command-parts.js";
import { runProgram, startProgram } from "../cli/run-program.js";
import { addServeCommands } from "../shim/serve/declare-serve.js";

/** As `runProgram`, with all commands. The first word may be the name that the program was started with. */
export async function runCommandLine(
  argv: readonly string[],
  io: DeclarationIo,
  runAction: RunAction<number>,
): Promise<number> {
  const isCriDockerd = argv[0] === "cri-dockerd";
  const name = isCriDockerd ? "cri-dockerd" : "dockershim";
  const words = isCriDockerd ? argv.slice(1) : argv;
  const { environment, version, commit, onSignal, writeOut, writeError } = io;
  const declared: DeclarationIo = {
    ...{ environment, version, commit, onSignal, writeOut, writeError },
    // A configuration may come from a pipe, which has it once.
    readFile: remembered((path) => io.readFile(path)),
    isSocket: remembered((path) => io.isSocket(path)),
  };
  return (
    (await serveAlone(words, declared, runAction, name)) ??
    runProgram(words, (await import("./all-commands.js")).buildProgram(declared, runAction, name), io)
  );
}

function remembered<T>(ask: (path: string) => Promise<T>): (path: string) => Promise<T> {
  const answers = new Map<string, Promise<T>>();
  return (path) => {
    const answer = answers.get(path) ?? ask(path);
    answers.set(path, answer);
    return answer;
  };
}

/**
 * Serves without the declarations of other commands, which a start does not wait for. Undefined, when nothing was
 * done and nothing said: for another command, help, a version, and flags with an error, which may name commands.
 */
async function serveAlone(
  argv: readonly string[],
  io: DeclarationIo,
  runAction: RunAction<number>,
  name: CommandParts["programName"],
): Promise<number | undefined> {
  const [first = "serve"] = argv;
  if (first !== "serve" && !first.startsWith("-")) return undefined;
  const action = { isBegun: false };
  const quiet: DeclarationIo = {
    ...io,
    writeOut: (text) => {
      if (action.isBegun) io.writeOut(text);
    },
    writeError: (text) => {
      if (action.isBegun) io.writeError(text);
    },
  };
  const run: RunAction<number> = (...given) => {
    action.isBegun = true;
    return runAction(...given);
  };
  const program = startProgram(quiet, run, name);
  addServeCommands(program.parts);
  const code = await runProgram(argv, program, quiet);
  return action.isBegun ? code : undefined;
}
