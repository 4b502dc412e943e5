/** Kernel settings of the node that networks with a bridge need. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { messageOf } from "../lib/errors.js";
import { hasCode } from "../lib/files/file-errors.js";
import { readKernelFile } from "../lib/linux/kernel-file.js";
import type { Logger } from "../lib/log.js";
import { outputOf, runCommand, type RunCommand } from "./iptables/run-command.js";

export interface HostSysctlOptions {
  readonly log: Pick<Logger, "debug" | "warn">;
  readonly run?: RunCommand;
  /** For tests. */
  readonly sysctlRoot?: string;
}

const modprobeTimeoutMs = 10_000;
const defaultRoot = "/proc/sys";
const bridgeSettings = ["net/bridge/bridge-nf-call-iptables", "net/bridge/bridge-nf-call-ip6tables"] as const;

/**
 * Passes bridged traffic between pods through iptables, for the rules of Services. The settings exist where the
 * module is loaded. A failure is a warning; ip6tables is set only where the kernel has the setting. Throws only when
 * `signal` aborts.
 */
export async function letIptablesSeeBridges(options: HostSysctlOptions, signal: AbortSignal): Promise<void> {
  const { run = runCommand, log, sysctlRoot = defaultRoot } = options;
  if (!existsSync(join(sysctlRoot, bridgeSettings[0]))) {
    try {
      await outputOf(run, "modprobe", ["br-netfilter"], { signal, timeoutMs: modprobeTimeoutMs });
    } catch (error) {
      signal.throwIfAborted();
      // The container has no modprobe, for example: the settings below show it.
      log.debug({ err: messageOf(error) }, "modprobe br-netfilter failed");
    }
  }
  for (const setting of bridgeSettings) {
    const path = `${sysctlRoot}/${setting}`;
    try {
      // Synchronous: a start waits for nothing else.
      if (readFileSync(path, "utf8").trim() !== "1") writeFileSync(path, "1", { flag: "r+" });
    } catch (error) {
      if (setting.endsWith("ip6tables") && hasCode(error, "ENOENT")) continue;
      log.warn({ setting, err: messageOf(error) }, "cannot enable bridge-nf-call-iptables");
    }
  }
}

/** A pod that reaches itself through a Service is answered from an address that strict filtering refuses. */
export async function warnOfStrictFiltering({
  log,
  sysctlRoot = defaultRoot,
}: HostSysctlOptions): Promise<void> {
  const setting = "net/ipv4/conf/all/rp_filter";
  const value = await readKernelFile(`${sysctlRoot}/${setting}`).catch(() => "");
  if (value.trim() !== "1") return;
  log.warn({ setting }, "strict reverse path filtering breaks pods that reach themselves through a Service");
}
