/** ADD, DEL, CHECK and GC with the result cache, in which an attachment is before its ADD. */
import { linkAbort } from "../../lib/abort.js";
import { aggregate, messageOf, ShimError } from "../../lib/errors.js";
import { KeyedMutex } from "../../lib/sync/keyed-mutex.js";
import type { Logger } from "../../lib/log.js";
import type { PodNamespaces } from "../../lib/linux/held-namespaces.js";
import type { PodNamespace } from "../../lib/linux/network-namespaces.js";
import type { CacheEntry, ResultCache } from "../libcni/cache.js";
import { parseCachedList, type NetworkList } from "../libcni/configuration.js";
import type { CniArgument } from "../libcni/invoke-plugin.js";
import { formatJson, type JsonObject } from "../../lib/json/exact-json.js";
import { livingNamespace } from "./living-namespace.js";
import { loopbackNetworkNames } from "./loopback.js";
import { removeNatRules, type NatTables } from "./nat-rules.js";
import type { Attachment, AttachmentKey, NetworkListRunner } from "../libcni/network-list-runner.js";
import { podAddresses } from "../libcni/result.js";
import type { RunningPlugins } from "../libcni/running-plugins.js";
import { ReadWriteLock } from "../../lib/sync/read-write-lock.js";
import { systemClock, type Clock } from "../../lib/time.js";
import { isAtLeast } from "../libcni/versions.js";

export interface AttachmentsOptions {
  readonly runner: NetworkListRunner;
  readonly cache: ResultCache;
  readonly natTables: NatTables;
  /** Orphaned plugins of the container are killed before each ADD and DEL. */
  readonly running: Pick<RunningPlugins, "killOrphaned">;
  readonly log: Pick<Logger, "warn" | "debug">;
  readonly clock?: Clock;
}

/** How long a pod waits for GC, which is then ended: a plugin that hangs there must not stop all pods. */
const garbagePatienceMs = 1000;

/** An attachment to remove. All but the id is used only where the cache has no data. `netns` is absent when unknown. */
export interface Removal extends Partial<PodNamespace> {
  readonly containerId: string;
  readonly ifName: string;
  readonly args: readonly CniArgument[];
  readonly capabilityArgs: JsonObject;
  /** The network of the present configuration. */
  readonly network?: NetworkList;
  /** Only this program has ever attached the container: without a cache entry there is nothing to remove. */
  readonly rememberedOnly?: boolean;
  readonly subject: string;
  /** Called when the namespace is held, so that it outlives the processes in it. */
  readonly namespaceHeld?: (() => void) | undefined;
}

export class Attachments {
  /** GC must not run beside any ADD or DEL. */
  readonly #lock = new ReadWriteLock();
  /** Ends the GC that runs now. */
  #garbage: AbortController | undefined;
  readonly #locks = new KeyedMutex();

  constructor(private readonly options: AttachmentsOptions) {}

  /**
   * Runs `work` under the lock of the container: plugins fail when two of them remove the same things.
   * Callers of `add`, `remove` and `removeRemembered` run in here; time limits begin inside. Not reentrant.
   */
  alone<T>(containerId: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    return this.#locks.run(containerId, signal, work);
  }

  /**
   * ADD of the whole list. After a failure the cache has all that `remove` needs. An earlier attempt with the
   * same id is undone first, because plugins refuse a second ADD. The caller holds the lock.
   */
  async add(list: NetworkList, attachment: Attachment, signal: AbortSignal): Promise<JsonObject> {
    const { runner, cache } = this.options;
    const { containerId, ifName, netns, netnsIdentity, args, capabilityArgs, subject } = attachment;
    return this.#withPlugins(containerId, signal, async () => {
      const { name: networkName, text: config } = list;
      const earlier = cache.written({ networkName, containerId, ifName });
      if (earlier !== undefined) {
        const known = { containerId, ifName, netns, netnsIdentity, args, capabilityArgs, subject };
        await this.#removeEntry(earlier, { ...known, network: list }, signal);
      }

      const entry: CacheEntry = {
        containerId,
        ifName,
        networkName,
        netns,
        config,
        cniArgs: args,
        capabilityArgs,
        ...(netnsIdentity === undefined ? {} : { netnsIdentity }),
      };
      await cache.write({ ...entry, phase: "adding" });
      let remembered = "";
      const result = await runner.add(list, attachment, signal, async (soFar) => {
        // Many plugins print their input unchanged.
        const text = formatJson(soFar);
        if (text !== remembered) await cache.write({ ...entry, result: soFar, phase: "adding" });
        remembered = text;
      });
      await cache.write({ ...entry, result, phase: "added" });
      return result;
    });
  }

  /**
   * DEL of all cached attachments of the container, each with the configuration, arguments and result of its
   * ADD. Without one, DEL of the present network, unless `rememberedOnly`. Without both, only a warning.
   * Idempotent. After a failure the cache keeps the entries, and the namespace is held, for the next attempt.
   */
  async remove(given: Removal, signal: AbortSignal): Promise<void> {
    const { cache, log } = this.options;
    const removal = this.#holding(given);
    const { containerId, network, rememberedOnly = false, subject } = removal;
    await this.#withPlugins(containerId, signal, async () => {
      const { entries, corrupt } = await cache.find(containerId);
      const failures: unknown[] = [];
      for (const entry of entries) {
        await this.#removeEntry(entry, removal, signal).catch((error: unknown) => failures.push(error));
      }
      const failure = aggregate(failures);
      if (failure !== undefined) throw failure;
      const believed = rememberedOnly && corrupt.length === 0;
      if (entries.every(isLoopback) && !believed) {
        if (network !== undefined) await this.#delete(network, undefined, removal, signal);
        else log.warn({ subject, sandboxId: containerId }, "no network configuration for the tear-down");
      }
      cache.removeCorrupt(corrupt);
    });
    this.#namespaces.release(containerId);
  }

  /** DEL of one attachment by its cache entry alone. False when it has been removed meanwhile. */
  async removeRemembered(
    { containerId, networkName, ifName }: Pick<CacheEntry, "containerId" | "networkName" | "ifName">,
    signal: AbortSignal,
  ): Promise<boolean> {
    return this.#withPlugins(containerId, signal, async () => {
      const { entries } = await this.options.cache.find(containerId);
      const entry = entries.find((each) => each.networkName === networkName && each.ifName === ifName);
      if (entry === undefined) return false;
      await this.#removeEntry(entry, this.#holding(rememberedRemoval(entry)), signal);
      if (entries.length === 1) this.#namespaces.release(containerId);
      return true;
    });
  }

  /** The pod's addresses by the cached result, undefined unless the whole list has succeeded. */
  async addresses(containerId: string, ifName: string): Promise<readonly string[] | undefined> {
    const { entries } = await this.options.cache.find(containerId);
    const entry = entries.find(
      (each) => each.ifName === ifName && !isLoopback(each) && each.phase !== "adding",
    );
    return entry?.result === undefined ? undefined : podAddresses(entry.result, ifName);
  }

  /**
   * The network of the container by the cache, and whether its list is cached, too. Undefined when the cache has no
   * entry, or one of loopback alone.
   */
  async cachedNetwork(
    containerId: string,
  ): Promise<{ readonly name: string; readonly hasList: boolean } | undefined> {
    const { entries } = await this.options.cache.find(containerId);
    const entry = entries.find((each) => !isLoopback(each));
    return entry && { name: entry.networkName, hasList: entry.config !== undefined };
  }

  /** Whether the cache has an entry of this program for the container, whatever its phase. */
  async isKnown(containerId: string): Promise<boolean> {
    const { entries } = await this.options.cache.find(containerId);
    return entries.some((entry) => !isLoopback(entry) && entry.phase !== undefined);
  }

  /**
   * CHECK of a cached attachment; throws the error of a plugin. False when no plugin was run: the list has no CHECK, or
   * another program set the pod up, or it was not set up to the end.
   */
  async check(entry: CacheEntry, signal: AbortSignal): Promise<boolean> {
    const { containerId, ifName, netns, netnsIdentity, cniArgs: args, capabilityArgs } = entry;
    if (isLoopback(entry) || entry.phase !== "added" || netns === undefined || netnsIdentity === undefined) {
      return false;
    }
    const list = this.#listOf(entry, undefined);
    if (list === undefined || list.disableCheck || !isAtLeast(list.cniVersion, "0.4.0")) return false;
    const { subject } = rememberedRemoval(entry);
    const attachment = { containerId, ifName, netns, netnsIdentity, args, capabilityArgs, subject };
    await this.#lock.read(signal, () => this.options.runner.check(list, attachment, entry.result, signal));
    return true;
  }

  /**
   * GC of the list, while no other command runs. `validAttachments` is called under the lock, so that no pod
   * is created in between. Plugins remove all attachments of the network that it does not name, also those of
   * other programs. `timeout` when it is ended for a pod that waits: the rest stays until the next one.
   */
  async collectGarbage(
    list: NetworkList,
    validAttachments: (signal: AbortSignal) => Promise<readonly AttachmentKey[]>,
    signal: AbortSignal,
  ): Promise<void> {
    await this.#lock.write(signal, async () => {
      const garbage = (this.#garbage = new AbortController());
      using _ = linkAbort(signal, () => {
        garbage.abort(signal.reason);
      });
      try {
        await this.options.runner.collectGarbage(
          list,
          await validAttachments(garbage.signal),
          garbage.signal,
        );
      } finally {
        this.#garbage = undefined;
      }
    });
  }

  /** Runs `work` while no GC runs, after orphaned plugins of the container were killed. */
  async #withPlugins<T>(containerId: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    const { clock = systemClock, running } = this.options;
    const garbage = this.#garbage;
    if (garbage !== undefined) {
      clock.after(garbagePatienceMs, () => {
        garbage.abort(new ShimError("timeout", "ended, because pods wait for their networks"));
      });
    }
    return this.#lock.read(signal, async () => {
      await running.killOrphaned(signal, containerId);
      return work();
    });
  }

  /** The removal by the held namespace, which may be that of an earlier attempt. As given where none is held. */
  #holding(removal: Removal): Removal {
    const held = this.#namespaces.hold(removal.containerId, removal);
    if (held === undefined) return removal;
    removal.namespaceHeld?.();
    return { ...removal, netns: held.netns, netnsIdentity: held.netnsIdentity };
  }

  async #removeEntry(entry: CacheEntry, removal: Removal, signal: AbortSignal): Promise<void> {
    const { cache, log } = this.options;
    // The interface lo ends with its namespace; only the entry is left.
    if (!isLoopback(entry)) {
      const list = this.#listOf(entry, removal.network);
      if (list === undefined) {
        log.warn(
          { subject: removal.subject, sandboxId: entry.containerId, network: entry.networkName },
          "cached attachment has no configuration for its tear-down",
        );
      } else {
        // An unfinished DEL must be marked: at the next one the bridge plugin does not find its rules.
        if (entry.phase === "added" && masquerades(list)) {
          // A full disk must not keep pods from being removed. The mark is needed only after a crash.
          await cache.write({ ...entry, phase: "deleting" }).catch((error: unknown) => {
            log.warn(
              { sandboxId: entry.containerId, err: messageOf(error) },
              "cannot record the start of a tear-down",
            );
          });
        }
        await this.#delete(list, entry, removal, signal);
      }
    }
    cache.remove(entry);
  }

  async #delete(
    list: NetworkList,
    entry: CacheEntry | undefined,
    removal: Removal,
    signal: AbortSignal,
  ): Promise<void> {
    const { runner, natTables } = this.options;
    const { containerId, subject } = removal;
    const namespace = livingNamespace(this.#namespaces, removal, entry);
    const { netns } = namespace;
    const attachment: Attachment = {
      containerId,
      ...namespace,
      ifName: entry?.ifName ?? removal.ifName,
      args: entry === undefined || entry.cniArgs.length === 0 ? removal.args : entry.cniArgs,
      capabilityArgs: { ...removal.capabilityArgs, ...(entry === undefined ? {} : offeredAtAdd(entry)) },
      subject,
    };
    try {
      await runner.delete(list, attachment, entry?.result, signal);
    } catch (error) {
      // The namespace may end meanwhile; without one, plugins remove what they keep outside of it.
      const isThere = this.#namespaces.look(netns)?.identity === namespace.netnsIdentity;
      if (netns === "" || signal.aborted || isThere) throw error;
      await runner.delete(list, { ...attachment, netns: "" }, entry?.result, signal);
    }
    // The bridge plugin finds its masquerade rules by the addresses on the interface, and else leaves them.
    if (masquerades(list) && (netns === "" || entry?.phase !== "added")) {
      await removeNatRules(natTables, new Set([containerId]), signal);
    }
  }

  get #namespaces(): PodNamespaces {
    return this.options.runner.invoker.namespaces;
  }

  #listOf(entry: CacheEntry, network: NetworkList | undefined): NetworkList | undefined {
    if (entry.config !== undefined) {
      try {
        return parseCachedList(entry.config, `cache of ${entry.networkName}`);
      } catch (error) {
        this.options.log.warn(
          { sandboxId: entry.containerId, err: messageOf(error) },
          "cannot read the configuration of a cached attachment",
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
  return loopbackNetworkNames.includes(networkName);
}

function rememberedRemoval(entry: CacheEntry): Removal {
  const { containerId, ifName, cniArgs: args, capabilityArgs } = entry;
  return { containerId, ifName, args, capabilityArgs, subject: `sandbox ${JSON.stringify(containerId)}` };
}

/** dockershim and cri-dockerd wrote an empty list of mappings when they had lost them: those of the caller are used. */
function offeredAtAdd({ capabilityArgs }: CacheEntry): JsonObject {
  const { portMappings, ...others } = capabilityArgs;
  const known = Array.isArray(portMappings) && portMappings.length > 0;
  return known ? capabilityArgs : others;
}
