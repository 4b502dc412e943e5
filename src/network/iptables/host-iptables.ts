/** The iptables of this host, shared by all readers and writers of rules. */
import { isKind } from "../../lib/errors.js";
import type { Logger } from "../../lib/log.js";
import { SingleFlight } from "../../lib/sync/single-flight.js";
import { detectIptables, plainIptables, type IptablesMode, type IptablesTools } from "./detect.js";
import { isHelperLost } from "../../shim/native/process-life.js";
import { Iptables } from "./iptables.js";
import { runCommand, type RunCommand } from "./run-command.js";

export interface HostIptablesOptions {
  /** Value of `--iptables-mode`. */
  readonly mode: IptablesMode;
  readonly log: Pick<Logger, "info" | "warn">;
  readonly run?: RunCommand;
}

/** Detects the backend at the first use, or after a failure. Callers share the objects and their queues. */
export class HostIptables {
  readonly #chosen = new SingleFlight<Iptables>();
  readonly #plain = new SingleFlight<Iptables | undefined>();
  readonly #run: RunCommand;
  #found: { chosen?: Iptables; plain?: Iptables } = {};

  constructor(private readonly options: HostIptablesOptions) {
    this.#run = options.run ?? runCommand;
  }

  /** For rules of our own. `unavailable` when it is not installed, `timeout` when its programs hang. */
  async chosen(signal: AbortSignal): Promise<Iptables> {
    return this.#found.chosen ?? this.#chosen.run("", signal, (shared) => this.#detect(shared));
  }

  /** All that may hold rules of CNI plugins and dockershim, which call plain `iptables`; maybe none. */
  async everywhere(signal: AbortSignal): Promise<readonly Iptables[]> {
    const chosen = await this.chosen(signal).catch((error: unknown) => {
      if (isKind(error, "unavailable") && !isHelperLost(error)) return undefined;
      throw error;
    });
    const plain = await this.#plainOne(signal);
    if (chosen === undefined) return plain === undefined ? [] : [plain];
    const same = plain === undefined || backendOf(plain) === backendOf(chosen);
    return same ? [chosen] : [chosen, plain];
  }

  async #detect(signal: AbortSignal): Promise<Iptables> {
    const { mode, log } = this.options;
    const tools = await detectIptables(mode, signal, this.#run);
    const { version, reason } = tools;
    log.info({ version: version.text, backend: version.backend, reason }, "using iptables");
    if (tools.differsFromDefault) {
      log.warn({ backend: version.backend }, "CNI plugins call plain iptables, which uses the other backend");
    }
    return (this.#found.chosen = this.#open(tools));
  }

  async #plainOne(signal: AbortSignal): Promise<Iptables | undefined> {
    if (this.#found.plain !== undefined) return this.#found.plain;
    return this.#plain.run("", signal, async (shared) => {
      const tools = await plainIptables(shared, this.#run);
      if (tools !== undefined) this.#found.plain = this.#open(tools);
      return this.#found.plain;
    });
  }

  #open(tools: IptablesTools): Iptables {
    return new Iptables(tools, { run: this.#run });
  }
}

function backendOf({ tools }: Iptables): string {
  return tools.version.backend;
}
