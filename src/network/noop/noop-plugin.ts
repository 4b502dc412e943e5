import { execFile } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { promisify } from "node:util";
import { messageOf } from "../../shim/base/errors.js";
import type { Logger } from "../../shim/base/log.js";
import type { NetworkPlugin } from "../../shim/ports/network-plugin.js";

const run = promisify(execFile);

const modprobeTimeoutMs = 10_000;
const bridgeSettings = ["net/bridge/bridge-nf-call-iptables", "net/bridge/bridge-nf-call-ip6tables"] as const;

/**
 * The fallback: Docker's own bridge is the pod network, Docker's addresses are the pod's, and Docker publishes the host
 * ports. Set-up and tear-down have nothing to do.
 */
export class NoopNetworkPlugin implements NetworkPlugin {
  readonly name = "kubernetes.io/no-op";
  readonly dockerNetworkMode = "default";
  readonly dockerPublishesPorts = true;

  constructor(
    readonly reason: string,
    private readonly log: Logger,
    private readonly sysctlRoot = "/proc/sys",
  ) {}

  /**
   * Lets iptables see bridged traffic, which the rules of Services need. A host that cannot do it still runs pods, so a
   * failure is a warning; ip6tables is only asked for where the kernel has that setting.
   */
  async start(signal: AbortSignal): Promise<void> {
    await run("modprobe", ["br-netfilter"], { signal, timeout: modprobeTimeoutMs }).catch((error: unknown) => {
      this.log.debug({ err: messageOf(error) }, "modprobe br-netfilter failed");
    });
    for (const setting of bridgeSettings) {
      const path = `${this.sysctlRoot}/${setting}`;
      try {
        if ((await readFile(path, "utf8")).trim() !== "1") await writeFile(path, "1");
      } catch (error) {
        this.log.warn({ setting, err: messageOf(error) }, "cannot let iptables see bridged traffic");
      }
    }
  }

  setUpPod(): Promise<undefined> {
    return Promise.resolve(undefined);
  }

  tearDownPod(): Promise<void> {
    return Promise.resolve();
  }

  podAddresses(): Promise<undefined> {
    return Promise.resolve(undefined);
  }

  podCidrChanged(): Promise<void> {
    return Promise.resolve();
  }

  notReadyReason(): undefined {
    return undefined;
  }

  describe(): Readonly<Record<string, unknown>> {
    return {};
  }
}
