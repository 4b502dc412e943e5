/** The systemd that an installation tells of its units. */
import { stat } from "node:fs/promises";
import { outputOf, runCommand } from "../network/iptables/run-command.js";
import { succeeds } from "../lib/errors.js";

export interface Systemd {
  /** `offline`: units are enabled below another root directory. `none`: not there, or in no use. */
  readonly kind: "running" | "offline" | "none";
  /** `systemctl` with these words; throws when it fails. */
  run(...words: readonly string[]): Promise<void>;
}

/** A start waits until the server serves. */
const timeoutMs = 120_000;

export async function findSystemd(root: string): Promise<Systemd> {
  const words = root === "/" ? [] : [`--root=${root}`];
  const run = async (...more: readonly string[]): Promise<void> => {
    const signal = AbortSignal.timeout(timeoutMs);
    await outputOf(runCommand, "systemctl", [...words, ...more], { signal, timeoutMs });
  };
  const isRunning = await succeeds(stat("/run/systemd/system"));
  if (root === "/") return { kind: isRunning ? "running" : "none", run };
  return { kind: (await succeeds(run("--version"))) ? "offline" : "none", run };
}
