/** What kubenet does to the node itself, for all pods: kernel settings, rules, and a look at what dockershim left. */
import { orAbort } from "../../shim/lib/abort.js";
import { messageOf } from "../../shim/lib/errors.js";
import type { Logger } from "../../shim/lib/log.js";
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
 * Nothing on the node is touched before the engine is known to run on it: with one elsewhere, the rules would be written
 * on the wrong machine. The work runs in the background, because tools of a busy node take their time; until it is done
 * there is a problem, and pods wait.
 */
export class KubenetNode {
  #state: "unknown" | "elsewhere" | "preparing" | "prepared" = "unknown";
  readonly #stopped = new AbortController();
  /** Kernel settings and rules. */
  #tried: Promise<void> = Promise.resolve();
  /** All that is under way. */
  #work: Promise<void> = Promise.resolve();

  constructor(private readonly parts: KubenetNodeParts) {}

  /** Begins, or looks after the rules once more: an engine that has just started may have changed the tables. */
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

  /** Tear-downs look for themselves as long as this has no answer. */
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
      log.warn({ mtuBytes: fallbackMtuBytes }, "no interface of the node tells the MTU for pods");
    } catch (error) {
      signal.throwIfAborted();
      log.warn({ mtuBytes: fallbackMtuBytes, err: messageOf(error) }, "cannot find out the MTU for pods");
    }
    return fallbackMtuBytes;
  }
}
