/** Kernel settings of the node. */
import { readFile, writeFile } from "node:fs/promises";
import { messageOf } from "../../shim/base/errors.js";
import { hasCode } from "../../shim/base/file-errors.js";
import type { Logger } from "../../shim/base/log.js";
import type { RunCommand } from "../iptables/run-command.js";

export interface HostSysctlOptions {
  readonly run: RunCommand;
  readonly log: Pick<Logger, "debug" | "warn">;
  /** For tests. */
  readonly sysctlRoot?: string;
}

const modprobeTimeoutMs = 10_000;

/**
 * Lets iptables see what goes from pod to pod over the bridge, which Services need, and warns of settings that break pod
 * networks. Nothing of it is a reason not to start.
 */
export async function prepareHostSysctls(options: HostSysctlOptions, signal: AbortSignal): Promise<void> {
  const { run, log, sysctlRoot = "/proc/sys" } = options;
  try {
    await run("modprobe", ["br-netfilter"], { signal, timeoutMs: modprobeTimeoutMs });
  } catch (error) {
    signal.throwIfAborted();
    // Built into the kernel, or no modprobe in a container: the settings themselves will tell.
    log.debug({ err: messageOf(error) }, "modprobe br-netfilter failed");
  }
  for (const name of ["net/bridge/bridge-nf-call-iptables", "net/bridge/bridge-nf-call-ip6tables"]) {
    const path = `${sysctlRoot}/${name}`;
    try {
      if ((await readFile(path, "utf8")).trim() !== "1") await writeFile(path, "1", { flag: "r+" });
    } catch (error) {
      const optional = name.endsWith("ip6tables") && hasCode(error, "ENOENT");
      if (!optional)
        log.warn({ setting: name, err: messageOf(error) }, "cannot let iptables see bridged traffic");
    }
  }
  const strict = await readFile(`${sysctlRoot}/net/ipv4/conf/all/rp_filter`, "utf8").catch(() => "");
  if (strict.trim() === "1") {
    log.warn(
      { setting: "net/ipv4/conf/all/rp_filter" },
      "strict reverse path filtering drops answers to pods that reach themselves through a Service; 2 or 0 does not",
    );
  }
}
