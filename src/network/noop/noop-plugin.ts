import { execFile } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { promisify } from "node:util";
import { messageOf } from "../../shim/base/errors.js";
import { hasCode } from "../../shim/base/file-errors.js";
import type { Logger } from "../../shim/base/log.js";
import type { NetworkPlugin } from "../../shim/ports/network-plugin.js";

const run = promisify(execFile);

const modprobeTimeoutMs = 10_000;

export interface NoopNetworkOptions {
  /** Why this plugin was chosen. */
  readonly reason: string;
  readonly log: Logger;
  /** For tests. */
  readonly sysctlRoot?: string;
  readonly modprobe?: string;
}

/**
 * The fallback: Docker's own bridge is the pod network, Docker's addresses are the pod's, and Docker publishes the host
 * ports. Set-up and tear-down have nothing to do.
 */
export class NoopNetworkPlugin implements NetworkPlugin {
  readonly name = "kubernetes.io/no-op";
  readonly dockerNetworkMode = "default";
  readonly dockerPublishesPorts = true;

  readonly reason: string;
  readonly #log: Logger;
  readonly #sysctlRoot: string;
  readonly #modprobe: string;

  constructor({ reason, log, sysctlRoot = "/proc/sys", modprobe = "modprobe" }: NoopNetworkOptions) {
    this.reason = reason;
    this.#log = log;
    this.#sysctlRoot = sysctlRoot;
    this.#modprobe = modprobe;
  }

  /**
   * Lets iptables see bridged traffic, which the rules of Services need. A host that cannot do it still runs pods, so a
   * failure is a warning; ip6tables is only asked for where the kernel has that setting.
   */
  async start(signal: AbortSignal): Promise<void> {
    try {
      await run(this.#modprobe, ["br-netfilter"], { signal, timeout: modprobeTimeoutMs });
    } catch (error) {
      signal.throwIfAborted();
      // Built into the kernel, or no modprobe in a container: the settings themselves will tell.
      this.#log.debug({ err: messageOf(error) }, "modprobe br-netfilter failed");
    }
    await this.#enable("net/bridge/bridge-nf-call-iptables");
    await this.#enable("net/bridge/bridge-nf-call-ip6tables", { mayBeMissing: true });
  }

  async #enable(setting: string, { mayBeMissing = false } = {}): Promise<void> {
    const path = `${this.#sysctlRoot}/${setting}`;
    try {
      if ((await readFile(path, "utf8")).trim() !== "1") await writeFile(path, "1", { flag: "r+" });
    } catch (error) {
      if (mayBeMissing && hasCode(error, "ENOENT")) return;
      this.#log.warn({ setting, err: messageOf(error) }, "cannot let iptables see bridged traffic");
    }
  }

  stop(): Promise<void> {
    return Promise.resolve();
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
