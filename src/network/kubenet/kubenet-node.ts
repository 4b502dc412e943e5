/** Prepares the node for kubenet: kernel settings, iptables rules, host ports of dockershim. */
import { orAbort } from "../../lib/abort.js";
import { messageOf } from "../../lib/errors.js";
import type { Logger } from "../../lib/log.js";
import type { EngineWhereabouts } from "../../shim/ports/network-plugin.js";
import { letIptablesSeeBridges, warnOfStrictFiltering } from "../host-sysctls.js";
import type { LegacyHostPorts } from "../hostport/legacy-host-ports.js";
import type { RunCommand } from "../iptables/run-command.js";
import type { KubenetSource } from "./kubenet-source.js";
import { fallbackMtuBytes, readLinks, smallestMtuBytes } from "./host-links.js";
import type { NodeRules } from "./node-rules.js";

export interface KubenetNodeParts {
  readonly source: Pick<KubenetSource, "configure">;
  readonly rules: Pick<NodeRules, "start" | "stop" | "problem">;
  readonly legacyHostPorts: Pick<LegacyHostPorts, "start">;
  /** 0: the smallest of the node's interfaces. */
  readonly mtuBytes: number;
  readonly run: RunCommand;
  readonly log: Pick<Logger, "error" | "warn" | "debug">;
  /** For tests. */
  readonly sysctlRoot?: string;
}

/**
 * Changes nothing before the engine is known to run on this node. The work runs in the background, because
 * iptables may be slow; until its end `problem` is set and pods wait.
 */
export class KubenetNode {
  #state: "unknown" | "elsewhere" | "preparing" | "prepared" = "unknown";
  readonly #stopped = new AbortController();
  /** Kernel settings and rules. */
  #tried: Promise<void> = Promise.resolve();
  /** All work that is under way. */
  #work: Promise<void> = Promise.resolve();

  constructor(private readonly parts: KubenetNodeParts) {}

  /** Prepares the node, or checks the rules again: an engine that starts may have changed the tables. */
  engineFound({ local }: EngineWhereabouts): Promise<void> {
    if (!local) {
      this.#state = "elsewhere";
      this.parts.rules.stop();
      return Promise.resolve();
    }
    if (this.#state === "preparing" || this.#stopped.signal.aborted) return this.#tried;
    const isFirst = this.#state !== "prepared";
    this.#tried = isFirst ? this.#prepare() : this.#lookAgain();
    const all = isFirst ? this.#tried.then(() => this.#findLegacyChains()) : this.#tried;
    this.#work = Promise.all([this.#work, all]).then(() => undefined);
    return this.#tried;
  }

  /** Returns when the first try is over, for pods that come while it is under way. */
  async settled(signal: AbortSignal): Promise<void> {
    if (this.#state === "preparing") await orAbort(this.#tried, signal);
  }

  async stop(): Promise<void> {
    this.#stopped.abort();
    await this.#work;
    this.parts.rules.stop();
  }

  /** Why no pod can be set up. */
  get problem(): string | undefined {
    switch (this.#state) {
      case "unknown":
        return "kubenet prepares the node when the Docker Engine answers";
      case "elsewhere":
        return "kubenet works on the host of the Docker Engine only, and the engine's processes are not visible from here (engine in a VM, on another host or in other namespaces)";
      case "preparing":
        return "kubenet is preparing the node";
      case "prepared":
        return this.parts.rules.problem;
    }
  }

  /** What fails is a warning, or the problem of the rules. */
  async #prepare(): Promise<void> {
    const { source, rules, mtuBytes, run, log, sysctlRoot } = this.parts;
    const { signal } = this.#stopped;
    this.#state = "preparing";
    try {
      const settings = { run, log, ...(sysctlRoot === undefined ? {} : { sysctlRoot }) };
      await letIptablesSeeBridges(settings, signal);
      await warnOfStrictFiltering(settings);
      await source.configure({ mtuBytes: mtuBytes === 0 ? await this.#nodeMtuBytes(signal) : mtuBytes });
      await rules.start(signal);
      this.#becomePrepared();
    } catch (error) {
      if (signal.aborted) return;
      log.error({ err: messageOf(error) }, "cannot prepare the node for kubenet");
      this.#state = "unknown";
    }
  }

  /** Until this has ended, tear-downs search by themselves. */
  async #findLegacyChains(): Promise<void> {
    const { signal } = this.#stopped;
    if (signal.aborted) return;
    await this.parts.legacyHostPorts.start(signal).catch((error: unknown) => {
      if (!signal.aborted) throw error;
    });
  }

  /** Unless the engine turned out to be elsewhere meanwhile. */
  #becomePrepared(): void {
    if (this.#state === "preparing") this.#state = "prepared";
    else if (this.#state === "elsewhere") this.parts.rules.stop();
  }

  async #lookAgain(): Promise<void> {
    await this.parts.rules.start(this.#stopped.signal);
    this.#becomePrepared();
  }

  async #nodeMtuBytes(signal: AbortSignal): Promise<number> {
    const { run, log } = this.parts;
    try {
      const found = smallestMtuBytes(await readLinks(run, signal));
      if (found !== undefined) return found;
      log.warn({ mtuBytes: fallbackMtuBytes }, "no node interface has a usable MTU, using the default");
    } catch (error) {
      signal.throwIfAborted();
      log.warn(
        { mtuBytes: fallbackMtuBytes, err: messageOf(error) },
        "cannot read the MTU of the node's interfaces, using the default",
      );
    }
    return fallbackMtuBytes;
  }
}
