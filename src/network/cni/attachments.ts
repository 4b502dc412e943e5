/** Attachments with a memory: what was begun is known before it begins, and is undone with what it was begun with. */
import { aggregate, messageOf } from "../../shim/base/errors.js";
import type { Logger } from "../../shim/base/log.js";
import type { CacheEntry } from "./cache-entry.js";
import type { ResultCache } from "./cache.js";
import { parseNetworkList, requireUsable, type NetworkList } from "./configuration.js";
import type { CniArgument } from "./invoke.js";
import { formatJson, type JsonObject } from "./json-text.js";
import { loopbackNetworkName } from "./loopback.js";
import { removeNatRules, type NatTable } from "./nat-table.js";
import type { Attachment, NetworkEngine } from "./network-engine.js";
import { isNetworkNamespace, isProcessPath } from "./network-namespace.js";
import { podAddresses } from "./result.js";
import { SharedLock } from "./shared-lock.js";

export interface AttachmentsOptions {
  readonly engine: NetworkEngine;
  readonly cache: ResultCache;
  readonly natTable: NatTable;
  readonly log: Pick<Logger, "warn" | "debug">;
}

/** What is to be undone. All but the id stands in for what the cache does not know. */
export interface Removal {
  readonly containerId: string;
  readonly ifName: string;
  /** Absent when the caller knows of no living namespace. */
  readonly netns?: string;
  readonly args: readonly CniArgument[];
  readonly capabilityArgs: JsonObject;
  /** The network of today, when there is one. */
  readonly network?: NetworkList;
  readonly subject: string;
}

export class Attachments {
  /** GC must not run beside any ADD or DEL. */
  readonly #lock = new SharedLock();

  constructor(private readonly options: AttachmentsOptions) {}

  /**
   * ADD of the whole list; the result of the last plugin. A failure leaves an entry with everything that `remove`
   * needs, up to the result of the last plugin that succeeded. An earlier try with the same id is undone first,
   * because plugins refuse a second ADD.
   */
  async add(list: NetworkList, attachment: Attachment, signal: AbortSignal): Promise<JsonObject> {
    const { engine, cache } = this.options;
    const { containerId, ifName, netns, args, capabilityArgs, subject } = attachment;
    return this.#lock.shared(signal, async () => {
      const earlier = (await cache.find(containerId)).entries.filter((entry) => entry.ifName === ifName);
      const removal = { containerId, ifName, netns, args, capabilityArgs, network: list, subject };
      for (const entry of earlier) await this.#removeEntry(entry, removal, signal);

      const { name: networkName, text: config } = list;
      const entry: CacheEntry = {
        containerId,
        ifName,
        networkName,
        netns,
        config,
        cniArgs: args,
        capabilityArgs,
      };
      await cache.write({ ...entry, phase: "adding" });
      let remembered = "";
      const result = await engine.add(list, attachment, signal, async (soFar) => {
        // Many plugins pass on what they got.
        const text = formatJson(soFar);
        if (text !== remembered) await cache.write({ ...entry, result: soFar, phase: "adding" });
        remembered = text;
      });
      await cache.write({ ...entry, result, phase: "added" });
      return result;
    });
  }

  /**
   * DEL of everything that the cache knows of the container, each with the configuration, arguments and result of its
   * ADD; of the present network when the cache knows nothing. With neither there is nothing that could be done: a
   * warning. Idempotent. After a failure everything is still known, for the next try.
   */
  async remove(removal: Removal, signal: AbortSignal): Promise<void> {
    const { cache, log } = this.options;
    const { containerId, network, subject } = removal;
    await this.#lock.shared(signal, async () => {
      const { entries, corrupt } = await cache.find(containerId);
      const failures: unknown[] = [];
      for (const entry of entries) {
        await this.#removeEntry(entry, removal, signal).catch((error: unknown) => failures.push(error));
      }
      const failure = aggregate(failures);
      if (failure !== undefined) throw failure;
      if (entries.every(isLoopback)) {
        if (network !== undefined) await this.#delete(network, undefined, removal, signal);
        else log.warn({ subject, sandboxId: containerId }, "no network configuration to tear down with");
      }
      await cache.removeCorrupt(corrupt);
    });
  }

  /** DEL of one remembered attachment, with nothing but what is remembered. */
  async removeRemembered(entry: CacheEntry, signal: AbortSignal): Promise<void> {
    await this.#lock.shared(signal, () => this.#removeEntry(entry, rememberedRemoval(entry), signal));
  }

  /** The pod's addresses by the cached result, undefined unless the whole list has succeeded. */
  async addresses(containerId: string, ifName: string): Promise<readonly string[] | undefined> {
    const { entries } = await this.options.cache.find(containerId);
    const entry = entries.find(
      (each) => each.ifName === ifName && !isLoopback(each) && each.phase !== "adding",
    );
    return entry?.result === undefined ? undefined : podAddresses(entry.result, ifName);
  }

  /** CHECK of all that is remembered of the container; true when there was something to check. */
  async check(containerId: string, subject: string, signal: AbortSignal): Promise<boolean> {
    const { entries } = await this.options.cache.find(containerId);
    const checkable = entries.filter((entry) => !isLoopback(entry));
    await this.#lock.shared(signal, async () => {
      for (const entry of checkable) {
        const list = this.#listOf(entry, undefined);
        if (list === undefined) continue;
        const { ifName, netns = "", cniArgs: args, capabilityArgs } = entry;
        const attachment = { containerId, ifName, netns, args, capabilityArgs, subject };
        await this.options.engine.check(list, attachment, entry.result, signal);
      }
    });
    return checkable.length > 0;
  }

  /**
   * DEL of every attachment to the network that this program made and that belongs to none of the containers, then GC
   * of the plugins. `validIds` is asked when nothing else runs any more, so that no pod is born in between; it must
   * answer with all containers that live, for the rest is taken away.
   */
  async collectGarbage(
    list: NetworkList,
    validIds: () => Promise<ReadonlySet<string>>,
    signal: AbortSignal,
  ): Promise<void> {
    const { engine, cache } = this.options;
    await this.#lock.exclusive(signal, async () => {
      const valid = await validIds();
      const entries = (await cache.list()).filter(({ networkName }) => networkName === list.name);
      const failures: unknown[] = [];
      const note = (error: unknown): void => void failures.push(error);
      for (const entry of entries) {
        if (entry.phase === undefined || valid.has(entry.containerId)) continue;
        await this.#removeEntry(entry, rememberedRemoval(entry), signal).catch(note);
      }
      const kept = entries.filter(({ containerId }) => valid.has(containerId));
      await engine.collectGarbage(list, kept, signal).catch(note);
      const failure = aggregate(failures);
      if (failure !== undefined) throw failure;
    });
  }

  async #removeEntry(entry: CacheEntry, removal: Removal, signal: AbortSignal): Promise<void> {
    const { cache, log } = this.options;
    // lo of a namespace dies with it; only the note is left.
    if (!isLoopback(entry)) {
      const list = this.#listOf(entry, removal.network);
      if (list === undefined) {
        log.warn(
          { subject: removal.subject, sandboxId: entry.containerId, network: entry.networkName },
          "a cached attachment has no configuration to tear it down with",
        );
      } else {
        // An unfinished DEL must be known as such: the bridge plugin does less where it finds less.
        if (entry.phase === "added" && masquerades(list)) {
          // A full disk must not keep pods from being removed. Without the mark, a repetition after a crash of this
          // program would know less; within this run the sweep below does not depend on it.
          await cache.write({ ...entry, phase: "deleting" }).catch((error: unknown) => {
            log.warn(
              { sandboxId: entry.containerId, err: messageOf(error) },
              "cannot note the beginning of a tear-down",
            );
          });
        }
        await this.#delete(list, entry, removal, signal);
      }
    }
    await cache.remove(entry);
  }

  async #delete(
    list: NetworkList,
    entry: CacheEntry | undefined,
    removal: Removal,
    signal: AbortSignal,
  ): Promise<void> {
    const { engine, natTable } = this.options;
    const { containerId, subject } = removal;
    const netns = await livingNamespace(removal.netns, entry?.netns);
    const attachment: Attachment = {
      containerId,
      netns,
      ifName: entry?.ifName ?? removal.ifName,
      args: entry === undefined || entry.cniArgs.length === 0 ? removal.args : entry.cniArgs,
      capabilityArgs: { ...removal.capabilityArgs, ...(entry === undefined ? {} : offeredAtAdd(entry)) },
      subject,
    };
    try {
      await engine.delete(list, attachment, entry?.result, signal);
    } catch (error) {
      // The namespace may die while a plugin looks for it; without one, plugins undo what they keep outside.
      if (netns === "" || signal.aborted || (await isNetworkNamespace(netns))) throw error;
      await engine.delete(list, { ...attachment, netns: "" }, entry?.result, signal);
    }
    // The bridge plugin finds its masquerade rules by the addresses on the interface, and leaves them if there are none.
    if (masquerades(list) && (netns === "" || entry?.phase !== "added")) {
      await removeNatRules(natTable, new Set([containerId]), signal);
    }
  }

  #listOf(entry: CacheEntry, network: NetworkList | undefined): NetworkList | undefined {
    if (entry.config !== undefined) {
      try {
        return requireUsable(parseNetworkList(entry.config, `cache of ${entry.networkName}`));
      } catch (error) {
        this.options.log.warn(
          { sandboxId: entry.containerId, err: messageOf(error) },
          "the configuration of a cached attachment cannot be read",
        );
      }
    }
    return network?.name === entry.networkName ? network : undefined;
  }
}

function masquerades(list: NetworkList): boolean {
  return list.plugins.some(({ configuration }) => configuration["ipMasq"] === true);
}

function isLoopback({ networkName }: CacheEntry): boolean {
  return networkName === loopbackNetworkName;
}

function rememberedRemoval(entry: CacheEntry): Removal {
  const { containerId, ifName, cniArgs: args, capabilityArgs } = entry;
  return { containerId, ifName, args, capabilityArgs, subject: `sandbox ${JSON.stringify(containerId)}` };
}

/** An empty list of mappings is what the ancestors wrote when they had lost them: the caller may know better. */
function offeredAtAdd({ capabilityArgs }: CacheEntry): JsonObject {
  const { portMappings, ...others } = capabilityArgs;
  const known = Array.isArray(portMappings) && portMappings.length > 0;
  return known ? capabilityArgs : others;
}

/**
 * The namespace for a DEL, empty when it is gone. The cached path counts only when it is a pinned one: a process
 * number of then may mean somebody else's namespace now.
 */
async function livingNamespace(given: string | undefined, cached: string | undefined): Promise<string> {
  if (given !== undefined && (await isNetworkNamespace(given))) return given;
  if (cached !== undefined && !isProcessPath(cached) && (await isNetworkNamespace(cached))) return cached;
  return "";
}
