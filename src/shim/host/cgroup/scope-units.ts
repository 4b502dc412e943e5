/** Units of systemd that are cgroups of containers. */
import { execFile } from "node:child_process";
import { stat } from "node:fs/promises";
import { isKind, ShimError } from "../../../lib/errors.js";

const timeoutMs = 10_000;
const outputLimitBytes = 64 * 1024;

/**
 * Sets properties of a running unit, as `MemoryHigh=1000`, until it ends. systemd refuses all of a call that
 * has one that it does not know: then they are set one by one, and the first error is thrown. `unsupported`
 * without the program, `unavailable` when systemd refuses, `timeout` when it does not answer within 10 s.
 */
export async function setUnitProperties(
  unit: string,
  assignments: readonly string[],
  signal: AbortSignal,
  program = "systemctl",
): Promise<void> {
  try {
    await setAtOnce(unit, assignments, signal, program);
  } catch (error) {
    if (assignments.length === 1 || !isKind(error, "unavailable")) throw error;
    const failures: unknown[] = [];
    for (const one of assignments) {
      await setAtOnce(unit, [one], signal, program).catch((failure: unknown) => failures.push(failure));
    }
    if (failures.length > 0) throw failures[0];
  }
}

async function setAtOnce(
  unit: string,
  assignments: readonly string[],
  signal: AbortSignal,
  program: string,
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
        const [kind, reason] =
          error.code === "ENOENT"
            ? (["unsupported", `no program "${program}" here`] as const)
            : error.killed === true
              ? (["timeout", `no answer after ${timeoutMs / 1000}s`] as const)
              : (["unavailable", stderr.trim() || error.message] as const);
        const message = `set ${assignments.join(" ")} of "${unit}": ${reason}`;
        reject(new ShimError(kind, message, { unit }));
      }
    });
  });
}

/** Differs after each time that systemd has loaded its units again. Undefined without one. */
export async function unitsLoadedMark(directory = "/run/systemd"): Promise<string | undefined> {
  return stat(directory, { bigint: true }).then(
    ({ mtimeNs }) => String(mtimeNs),
    () => undefined,
  );
}
