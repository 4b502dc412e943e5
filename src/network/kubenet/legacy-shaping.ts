/**
 * Bandwidth limits of dockershim's kubenet, on the bridge by the pod's address. This program uses the plugin
 * `bandwidth`; one that stays would slow the next pod with the address.
 */
import { isIPv4 } from "node:net";
import { isKind, messageOf } from "../../lib/errors.js";
import type { Logger } from "../../lib/log.js";
import { outputOf, runCommand, type RunCommand } from "../iptables/run-command.js";
import { kubenetBridge } from "./kubenet-conflist.js";

interface ShapingFilter {
  /** As `800::80a`. */
  readonly handle: string;
  /** As `1:2`. */
  readonly classId: string;
  /** Eight hex digits. */
  readonly address: string;
}

export class LegacyShaping {
  /** Whether there were filters at the last look; undefined before the first one. */
  #present: boolean | undefined;

  constructor(
    private readonly log: Pick<Logger, "info" | "warn">,
    private readonly run: RunCommand = runCommand,
  ) {}

  /** Whether a limit may be there. Without one nothing is looked for until the next start. */
  get present(): boolean {
    return this.#present !== false;
  }

  /** Removes the limits of these addresses. Best effort: a failure is logged, and the next pod tries again. */
  async release(addresses: readonly string[], signal: AbortSignal): Promise<void> {
    const wanted = new Set(addresses.filter((address) => isIPv4(address)).map(hexOf));
    if (!this.present || wanted.size === 0) return;
    try {
      const filters = await this.#filters(signal);
      const released = filters.filter(({ address }) => wanted.has(address));
      for (const { handle, classId } of released) {
        // The filter first: a class with a filter is in use.
        await this.#tc(
          `filter del dev ${kubenetBridge} parent 1: proto ip prio 1 handle ${handle} u32`,
          signal,
        );
        await this.#tc(`class del dev ${kubenetBridge} parent 1: classid ${classId}`, signal);
      }
      this.#present = filters.length > released.length;
      if (released.length > 0) {
        this.log.info({ addresses, limits: released.length }, "removed bandwidth limits of dockershim");
      }
    } catch (error) {
      signal.throwIfAborted();
      if (isKind(error, "notFound")) {
        // Without the program dockershim limited nothing either.
        this.#present = false;
        return;
      }
      this.log.warn({ addresses, err: messageOf(error) }, "cannot remove bandwidth limits of dockershim");
    }
  }

  async #filters(signal: AbortSignal): Promise<readonly ShapingFilter[]> {
    const words = ["filter", "show", "dev", kubenetBridge];
    const { exitCode, stdout } = await this.run("tc", words, { signal });
    // There is no bridge yet.
    return exitCode === 0 ? parseFilters(stdout) : [];
  }

  async #tc(words: string, signal: AbortSignal): Promise<void> {
    await outputOf(this.run, "tc", words.split(" "), { signal });
  }
}

/** Those of `tc filter show` that dockershim made: priority 1, and one address as the only match. */
export function parseFilters(output: string): readonly ShapingFilter[] {
  const filters: ShapingFilter[] = [];
  for (const block of output.split(/^(?=filter )/m)) {
    const head = /^filter parent 1:.* pref 1 u32 .*\bfh ([0-9a-f]+::[0-9a-f]+) .*flowid (1:[0-9a-f]+)/.exec(
      block,
    );
    const matches = [...block.matchAll(/^\s+match (.*?)\s*$/gm)].map(([, match = ""]) => match);
    const [, address] = /^([0-9a-f]{8})\/ffffffff at (?:12|16)$/.exec(matches.join()) ?? [];
    const [, handle, classId] = head ?? [];
    if (address !== undefined && handle !== undefined && classId !== undefined) {
      filters.push({ handle, classId, address });
    }
  }
  return filters;
}

function hexOf(address: string): string {
  return address
    .split(".")
    .map((part) => Number(part).toString(16).padStart(2, "0"))
    .join("");
}
