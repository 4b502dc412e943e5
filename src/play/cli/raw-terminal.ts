/** The terminal of this process, raw as kubectl and docker make it. */
import { spawnSync } from "node:child_process";
import type { ReadStream } from "node:tty";

/** Gives every key to the command, also Ctrl-C, until the result is disposed of or the process exits. */
export function rawTerminal(stdin: ReadStream): Disposable {
  const before = stdin.isRaw;
  const restore = (): void => {
    try {
      stdin.setRawMode(before);
    } catch {
      // The terminal is gone.
    }
  };
  stdin.setRawMode(true);
  // Node.js lets the terminal make CR LF of each LF, by which programs move the cursor down in its column. Without
  // stty(1) that stays.
  spawnSync("stty", ["raw", "-echo"], { stdio: ["inherit", "ignore", "ignore"] });
  process.once("exit", restore);
  return {
    [Symbol.dispose]: () => {
      process.off("exit", restore);
      restore();
    },
  };
}
