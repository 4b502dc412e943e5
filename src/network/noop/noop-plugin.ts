import { execFile } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { promisify } from "node:util";
import { messageOf } from "../../shim/base/errors.js";
import { hasCode } from "../../shim/base/file-errors.js";
import type { Logger } from "../../shim/base/log.js";
import type { NetworkPlugin, PodNetworkTearDown } from "../../shim/ports/network-plugin.js";

const run = promisify(execFile);

const modprobeTimeoutMs = 10_000;

/** What pods of a former plugin are released with. */
export interface FormerNetworks {
  hasAttachment(sandboxId: string): Promise<boolean>;
  tearDownPod(request: PodNetworkTearDown, signal: AbortSignal): Promise<void>;
}

export interface NoopNetworkOptions {
  /** Why this plugin was chosen. */
  readonly reason: string;
  readonly log: Logger;
  readonly former?: FormerNetworks;
  /** For tests. */
  readonly sysctlRoot?: string;
  readonly modprobe?: string;
}

/**
 * The fallback: Docker's own bridge is the pod network, Docker's addresses are the pod's, and Docker publishes the host
 * ports. There is nothing to set up, and nothing to tear down but what a former plugin made.
 */
export class NoopNetworkPlugin implements NetworkPlugin {
  readonly name = "kubernetes.io/no-op";
  readonly dockerNetworkMode = "default";
  readonly dockerPublishesPorts = true;

  readonly reason: string;
  readonly #log: Logger;
  readonly #sysctlRoot: string;
  readonly #modprobe: string;
  readonly #former: FormerNetworks | undefined;

  constructor(options: NoopNetworkOptions) {
    const { reason, log, sysctlRoot = "/proc/sys", modprobe = "modprobe", former } = options;
    this.#former = former;
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

  /** A pod of a time when this node had another plugin still has what that plugin gave it. */
  async tearDownPod(request: PodNetworkTearDown, signal: AbortSignal): Promise<void> {
    if ((await this.#former?.hasAttachment(request.sandboxId)) === true) {
      await this.#former?.tearDownPod(request, signal);
    }
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
