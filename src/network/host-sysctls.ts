/** Kernel settings of the node that plugins with a bridge need, whoever makes the bridge. */
import { writeFile } from "node:fs/promises";
import { messageOf } from "../shim/lib/errors.js";
import { hasCode } from "../shim/lib/files/file-errors.js";
import { readKernelFile } from "../shim/lib/linux/kernel-file.js";
import type { Logger } from "../shim/lib/log.js";
import { outputOf, runCommand, type RunCommand } from "./iptables/run-command.js";

export interface HostSysctlOptions {
  readonly log: Pick<Logger, "debug" | "warn">;
  readonly run?: RunCommand;
  /** For tests. */
  readonly sysctlRoot?: string;
}

const modprobeTimeoutMs = 10_000;
const defaultRoot = "/proc/sys";

/**
 * Lets iptables see what goes from pod to pod over a bridge, which the rules of Services need. A host that cannot do it
 * still runs pods, so a failure is a warning; ip6tables is only asked for where the kernel has that setting. Throws only
 * when `signal` aborts.
 */
export async function letIptablesSeeBridges(options: HostSysctlOptions, signal: AbortSignal): Promise<void> {
  const { run = runCommand, log, sysctlRoot = defaultRoot } = options;
  try {
    await outputOf(run, "modprobe", ["br-netfilter"], { signal, timeoutMs: modprobeTimeoutMs });
  } catch (error) {
    signal.throwIfAborted();
    // Built into the kernel, or no modprobe in a container: the settings themselves will tell.
    log.debug({ err: messageOf(error) }, "modprobe br-netfilter failed");
  }
  for (const setting of ["net/bridge/bridge-nf-call-iptables", "net/bridge/bridge-nf-call-ip6tables"]) {
    const path = `${sysctlRoot}/${setting}`;
    try {
      if ((await readKernelFile(path)).trim() !== "1") await writeFile(path, "1", { flag: "r+" });
    } catch (error) {
      if (setting.endsWith("ip6tables") && hasCode(error, "ENOENT")) continue;
      log.warn({ setting, err: messageOf(error) }, "cannot let iptables see bridged traffic");
    }
  }
}

/** Answers to a pod that reaches itself through a Service come from an address that strict filtering does not expect. */
export async function warnOfStrictFiltering({
  log,
  sysctlRoot = defaultRoot,
}: HostSysctlOptions): Promise<void> {
  const setting = "net/ipv4/conf/all/rp_filter";
  const value = await readKernelFile(`${sysctlRoot}/${setting}`).catch(() => "");
  if (value.trim() !== "1") return;
  log.warn(
    { setting },
    "strict reverse path filtering drops answers to pods that reach themselves through a Service; 2 or 0 does not",
  );
}
