/** Puts the parts of CNI together, for the plugin `cni` and for others that bring a list of their own. */
import type { Logger } from "../../shim/base/log.js";
import { Attachments } from "./attachments.js";
import { ResultCache } from "./cache.js";
import { CniNetworkPlugin, type CniTimeouts } from "./cni-plugin.js";
import { ConfigurationDirectory } from "./configuration-directory.js";
import { PluginInvoker, type InvokerOptions } from "./invoke.js";
import { HostNatTable, type NatTable } from "./nat-table.js";
import { NetworkEngine } from "./network-engine.js";
import type { NetworkSource } from "./network-source.js";
import { StatusProbe } from "./status-probe.js";

export interface CniEngineOptions extends Pick<
  InvokerOptions,
  "environment" | "parallelism" | "limits" | "observe"
> {
  readonly binDirs: readonly string[];
  readonly cacheDir: string;
  readonly log: Logger;
  /** Result directories beside our own where older shims left entries; the usual ones when not given. */
  readonly ancestorResultDirs?: readonly string[];
  readonly natTable?: NatTable;
}

/** What a plugin of one's own is built from; also what clean-up works with. */
export interface CniParts {
  readonly invoker: PluginInvoker;
  readonly engine: NetworkEngine;
  readonly cache: ResultCache;
  readonly attachments: Attachments;
  readonly natTable: NatTable;
}

export function createCniParts(options: CniEngineOptions): CniParts {
  const { log, cacheDir, ancestorResultDirs } = options;
  const invoker = new PluginInvoker(options);
  const engine = new NetworkEngine(invoker, log);
  const cache = new ResultCache(cacheDir, log, ancestorResultDirs);
  const natTable = options.natTable ?? new HostNatTable();
  return { invoker, engine, cache, natTable, attachments: new Attachments({ engine, cache, natTable, log }) };
}

export interface CniPluginOptions extends CniEngineOptions {
  readonly reason: string;
  readonly confDir: string;
  readonly podCidrs?: readonly string[];
  readonly timeouts?: Partial<CniTimeouts>;
}

/** The plugin `cni`, with its list from the configuration directory. */
export function createCniPlugin(
  options: CniPluginOptions,
  parts = createCniParts(options),
): CniNetworkPlugin {
  const { confDir: directory, log } = options;
  const source = new ConfigurationDirectory({ directory, invoker: parts.invoker, log });
  return createPluginOn(source, "cni", options, parts);
}

/** A plugin that works as `cni` does, on another source of its list. */
export function createPluginOn(
  source: NetworkSource,
  name: string,
  options: Omit<CniPluginOptions, "confDir">,
  parts: CniParts = createCniParts(options),
): CniNetworkPlugin {
  const { reason, log, podCidrs, timeouts } = options;
  const { engine, attachments, cache } = parts;
  return new CniNetworkPlugin({
    name,
    reason,
    source,
    engine,
    attachments,
    status: new StatusProbe(engine),
    open: () => cache.open(),
    log,
    ...(podCidrs === undefined ? {} : { podCidrs }),
    ...(timeouts === undefined ? {} : { timeouts }),
  });
}
