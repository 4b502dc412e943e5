/** Why a unit of systemd ended, in its own words: those of its last line that says so. */
import { cutText } from "../../history/history-record.js";
import { redactText } from "../../lib/redact.js";
import { type RunCommand, runCommand } from "../../network/iptables/run-command.js";

const timeoutMs = 5_000;
const lines = 200;

/** As dockerd and this program write them: in front of lines of their logs, which they may also be. */
const ends = /^(?:failed to|unable to|invalid|flag provided|unknown|cri-dockerd: |dockershim: )/;
const fatal = /\blevel=fatal\b.*?\bmsg="((?:[^"\\]|\\.)*)"/;

/** Undefined when it did not fail, when it is no unit here, and without systemd. */
export async function readLastWords(unit: string, run: RunCommand = runCommand): Promise<string | undefined> {
  const options = { signal: AbortSignal.timeout(timeoutMs), timeoutMs };
  try {
    const state = await run("systemctl", ["show", "--property=Result", "--value", "--", unit], options);
    const result = state.stdout.trim();
    if (state.exitCode !== 0 || result === "" || result === "success") return undefined;
    const unspecific = `${result}, as systemd says`;
    // What has a signal of others, as of the kernel, had no time to write.
    if (result !== "exit-code" && result !== "start-limit-hit") return unspecific;
    const words = ["--no-pager", "--output=cat", `--lines=${lines}`, `--unit=${unit}`];
    const { stdout } = await run("journalctl", words, options);
    const said = stdout.split("\n").map((line) => (ends.test(line) ? line : fatal.exec(line)?.[1]));
    return cutText(redactText(said.findLast((text) => text !== undefined) ?? unspecific));
  } catch {
    // The finding is made without them.
    return undefined;
  }
}
