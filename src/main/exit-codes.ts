/** What the exit codes of all commands mean: in their help, and in docs/run/operate.md and docs/migrate/migrating.md. */
import type { Command } from "commander";

export interface ExitCodes {
  readonly 0: string;
  /** Beside a failure, which is always 1. */
  readonly 1?: string;
  readonly 2?: string;
  readonly others?: string;
}

const failed = "the command failed: one line on standard error says why";
const printed: ExitCodes = { 0: "printed" };
const done: ExitCodes = { 0: "done" };
const streamed: ExitCodes = { 0: "done", others: "the command's, 130 when interrupted" };

/** By the words of the command. */
export const exitCodes: Readonly<Record<string, ExitCodes>> = {
  serve: {
    0: "ended by SIGTERM or SIGINT",
    others: "ended by SIGKILL of its own, when something hangs or at a second SIGTERM",
  },
  ...{ config: printed, version: printed, completion: printed },
  doctor: { 0: "no error was found", 1: "errors" },
  "doctor bundle": { 0: "written" },
  why: { 0: "printed", 2: "several pods have the name: they are listed" },
  play: { 0: "all pods ended well, are ready, or are removed", 1: "not all" },
  "play ls": printed,
  ...{ "pod ps": done, "pod logs": done, "pod cp": done, "pod describe": done, "pod events": done },
  ...{ "pod top": done, "pod exec": streamed, "pod attach": streamed },
  "pod port-forward": { 0: "ended by Ctrl-C", 1: "the pod is gone" },
  "pod wait": { 0: "all are as they should be", 1: "one is not within the time" },
  "pod down": { 0: "all are removed", 1: "one is not" },
  forward: { 0: "ended by Ctrl-C" },
  "migrate check": {
    0: "nothing blocks, nothing changes for pods",
    2: "something is lost, blocked, restarted or changed",
  },
  "migrate plan": {
    0: "planned, written or undone",
    2: "a place is NOT CHANGED, because it was not understood",
  },
  "migrate rehearse": { 0: "no findings", 2: "findings" },
  diff: { 0: "no difference, or only intended ones", 2: "differences" },
  record: { 0: "recorded" },
  replay: {
    0: "every answer is as recorded, or differs on purpose",
    2: "answers differ, or pods could not be removed",
  },
  shadow: {
    0: "ended; report: no difference, or only intended ones",
    2: "report: differences that are not intended",
  },
  install: { 0: "installed, or all was in place" },
  uninstall: { 0: "removed, but for what was edited" },
  wipe: {
    0: "nothing is left of pods and of this program",
    2: "something could not be removed: its line says why",
  },
  "checkpoint ls": { 0: "listed, also corrupt files" },
  "checkpoint convert": { 0: "all files are as the program needs them" },
  "checkpoint verify": { 0: "no file is corrupt", 2: "a file is corrupt" },
  "checkpoint repair": {
    0: "nothing is left to repair",
    2: "a file cannot be repaired; with --dry-run: there is something to repair",
  },
};

/** To the end of the help of each command below `parent`. */
export function sayExitCodes(parent: Command, path = ""): void {
  for (const command of parent.commands) {
    const words = `${path} ${command.name()}`.trim();
    const codes = exitCodes[words];
    sayExitCodes(command, words);
    if (codes === undefined) continue;
    const one = codes[1] === undefined ? failed : `${codes[1]}; or ${failed}`;
    const rows = [codes[0], one, codes[2]].flatMap((text, code) =>
      text === undefined ? [] : [`  ${code}  ${text}`],
    );
    const others = codes.others === undefined ? [] : [`  others: ${codes.others}`];
    command.addHelpText("after", `\nExit codes:\n${[...rows, ...others].join("\n")}`);
  }
}
