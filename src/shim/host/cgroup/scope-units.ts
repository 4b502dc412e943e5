/** Units of systemd that are cgroups of containers. */
import { execFile } from "node:child_process";
import { stat } from "node:fs/promises";
import { ShimError } from "../../lib/errors.js";

const timeoutMs = 10_000;
const outputLimitBytes = 64 * 1024;

/**
 * Sets properties of a running unit, as `MemoryHigh=1000`, until it ends. `unsupported` without the program,
 * `unavailable` when systemd refuses or does not answer within 10 s.
 */
export async function setUnitProperties(
  unit: string,
  assignments: readonly string[],
  signal: AbortSignal,
  program = "systemctl",
): Promise<void> {
  const words = ["--no-ask-password", "set-property", "--runtime", "--", unit, ...assignments];
  const options = {
    signal,
    encoding: "utf8",
    timeout: timeoutMs,
    killSignal: "SIGKILL",
    maxBuffer: outputLimitBytes,
  } as const;
  await new Promise<void>((resolve, reject) => {
    execFile(program, words, options, (error, _, stderr) => {
      if (error === null) resolve();
      else if (signal.aborted) reject(ShimError.from(signal.reason));
      else {
        const isMissing = error.code === "ENOENT";
        const reason = isMissing
          ? `no program "${program}" here`
          : error.killed === true
            ? `no answer after ${timeoutMs / 1000}s`
            : stderr.trim() || error.message;
        const message = `set ${assignments.join(" ")} of "${unit}": ${reason}`;
        reject(new ShimError(isMissing ? "unsupported" : "unavailable", message, { unit }));
      }
    });
  });
}

/**
 * Differs after each time that systemd has loaded its units again, and perhaps more often: it removes and makes
 * directories of its generators then. Undefined without a systemd.
 */
export async function unitsLoadedMark(directory = "/run/systemd"): Promise<string | undefined> {
  return stat(directory, { bigint: true }).then(
    ({ mtimeNs }) => String(mtimeNs),
    () => undefined,
  );
}
