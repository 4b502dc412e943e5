/** This process's terminal, while it is that of a command in a container. */
import type { ReadStream, WriteStream } from "node:tty";
import type { TerminalSize } from "../streams/run-command.js";

/**
 * Gives every key to the command, also Ctrl-C, until it is disposed of or the process exits, which restores
 * the terminal.
 */
export function rawTerminal(stdin: Pick<ReadStream, "isRaw" | "setRawMode">): Disposable {
  const before = stdin.isRaw;
  const restore = (): void => {
    stdin.setRawMode(before);
  };
  stdin.setRawMode(true);
  process.once("exit", restore);
  return {
    [Symbol.dispose]: () => {
      process.off("exit", restore);
      restore();
    },
  };
}

/** Node.js emits "resize" at SIGWINCH. */
export function sizesOf(stdout: Pick<WriteStream, "columns" | "rows" | "on" | "off">) {
  return (changed: (size: TerminalSize) => void): (() => void) => {
    const sendSize = (): void => {
      changed({ width: stdout.columns, height: stdout.rows });
    };
    sendSize();
    stdout.on("resize", sendSize);
    return () => {
      stdout.off("resize", sendSize);
    };
  };
}
