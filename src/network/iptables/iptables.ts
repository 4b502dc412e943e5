/** Rules of the host's packet filter, of both address families. */
import { sleep } from "../../lib/abort.js";
import { isKind, ShimError } from "../../lib/errors.js";
import { KeyedMutex } from "../../lib/sync/keyed-mutex.js";
import { type IptablesTools, restoreWaitFlags, waitFlags } from "./detect.js";
import { commandError, runCommand, type CommandExit, type RunCommand } from "./run-command.js";

export type AddressFamily = "ipv4" | "ipv6";

export const addressFamilies: readonly AddressFamily[] = ["ipv4", "ipv6"];

export interface Rule {
  readonly table: "nat" | "filter";
  readonly chain: string;
  /** All after the name of the chain. */
  readonly words: readonly string[];
}

export interface IptablesOptions {
  readonly run?: RunCommand;
  /** Waits between two tries. */
  readonly pause?: (milliseconds: number, signal: AbortSignal) => Promise<void>;
}

/** A lack of resources, or another program holds the table: both pass. */
const busyExitCode = 4;
const tries = 5;
const pauseMs = 200;

/**
 * One command at a time for each family. `notFound` when the family has no tool, `unavailable` while the
 * tables stay busy, else `unknown`; command, exit code and stderr are fields.
 */
export class Iptables {
  readonly #lock = new KeyedMutex();
  readonly #run: RunCommand;
  readonly #pause: NonNullable<IptablesOptions["pause"]>;

  constructor(
    readonly tools: IptablesTools,
    { run = runCommand, pause = sleep }: IptablesOptions = {},
  ) {
    this.#run = run;
    this.#pause = pause;
  }

  /** Appends the rule unless it is there; true when it was not. */
  ensureRule(family: AddressFamily, rule: Rule, signal: AbortSignal): Promise<boolean> {
    return this.#alone(family, signal, async () => {
      const absent = 1;
      if ((await this.#rule(family, "-C", rule, signal, absent)).exitCode === 0) return false;
      await this.#rule(family, "-A", rule, signal);
      return true;
    });
  }

  /** `ACCEPT` or `DROP`: what happens to packets that no rule of a built-in chain decides on. */
  policy(family: AddressFamily, chain: "FORWARD", signal: AbortSignal): Promise<string> {
    return this.#alone(family, signal, async () => {
      const output = await this.#command(family, "", ["-t", "filter", "-S", chain], signal);
      const policy = /^-P \S+ (\S+)/m.exec(output.stdout)?.[1];
      if (policy === undefined) throw new ShimError("unknown", `policy of ${chain}: not in the answer`);
      return policy;
    });
  }

  /** The table as `iptables-save` prints it. */
  save(family: AddressFamily, table: Rule["table"], signal: AbortSignal): Promise<string> {
    return this.#alone(family, signal, async () => {
      const { stdout } = await this.#command(family, "-save", ["-t", table], signal);
      return stdout;
    });
  }

  /** As `save`; empty where the host has no tool or no such table for the family. */
  async saveIfAny(family: AddressFamily, table: Rule["table"], signal: AbortSignal): Promise<string> {
    try {
      return await this.save(family, table, signal);
    } catch (error) {
      signal.throwIfAborted();
      if (isKind(error, "notFound") || (family === "ipv6" && isKind(error, "unknown"))) return "";
      throw error;
    }
  }

  /** Applies `text` as a whole or not at all; chains that it does not name stay as they are, counters too. */
  async restore(family: AddressFamily, text: string, signal: AbortSignal): Promise<void> {
    const words = [...restoreWaitFlags(this.tools.version), "--noflush", "--counters"];
    await this.#alone(family, signal, () => this.#command(family, "-restore", words, signal, text));
  }

  #rule(
    family: AddressFamily,
    action: "-A" | "-C",
    { table, chain, words }: Rule,
    signal: AbortSignal,
    expectedExit = 0,
  ): Promise<CommandExit> {
    const all = [...waitFlags(this.tools.version), "-t", table, action, chain, ...words];
    return this.#command(family, "", all, signal, undefined, expectedExit);
  }

  async #command(
    family: AddressFamily,
    part: "" | "-save" | "-restore",
    words: readonly string[],
    signal: AbortSignal,
    input?: string,
    expectedExit = 0,
  ): Promise<CommandExit> {
    const program = `${family === "ipv4" ? "iptables" : "ip6tables"}${this.tools.suffix}${part}`;
    for (let attempt = 1; ; attempt += 1) {
      const exit = await this.#run(program, words, { signal, ...(input === undefined ? {} : { input }) });
      if (exit.exitCode === 0 || exit.exitCode === expectedExit) return exit;
      const error = commandError(program, words, exit);
      if (exit.exitCode !== busyExitCode) throw error;
      if (attempt >= tries) throw new ShimError("unavailable", error.message, error.fields, { cause: error });
      await this.#pause(pauseMs * attempt, signal);
    }
  }

  #alone<T>(family: AddressFamily, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    return this.#lock.run(family, signal, work);
  }
}
