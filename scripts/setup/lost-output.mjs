/** What happens when nobody reads the output any longer, as behind `npm test | head`. */
import { constants } from "node:os";

/**
 * Ends this process as SIGPIPE ends other programs, quietly and with code 141: Node.js ignores that signal, and its
 * stream has the error EPIPE instead. Whoever listens for the stream's errors too is left to end what it has begun.
 * @param {NodeJS.WriteStream} output
 */
export function endWithoutReader(output) {
  output.on("error", (/** @type {NodeJS.ErrnoException} */ error) => {
    if (output.listenerCount("error") > 1) return;
    if (error.code !== "EPIPE") throw error;
    process.exit(128 + constants.signals.SIGPIPE);
  });
}
