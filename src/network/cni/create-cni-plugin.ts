/** Builds the network plugin `cni`, and the parts that it shares with kubenet and the clean-up. */
import { join } from "node:path";
import { deadline } from "../../lib/abort.js";
import { messageOf } from "../../lib/errors.js";
import type { Flusher } from "../../lib/files/flusher.js";
import type { Logger } from "../../lib/log.js";
import { HostIptables } from "../iptables/host-iptables.js";
import { commandRunner, type RunCommand } from "../iptables/run-command.js";
import { startAsChild } from "../../shim/native/start-program.js";
import { Attachments } from "./attachments.js";
import { ResultCache } from "../libcni/cache.js";
import { CniNetworkPlugin, type CniTimeouts } from "./cni-plugin.js";
import { ConfigurationDirectory } from "./configuration-directory.js";
import type { NetworkSource } from "./network-source.js";
import { PluginInvoker, type InvokerOptions } from "../libcni/invoke-plugin.js";
import { hostNatTables, type NatTables } from "./nat-rules.js";
import { NetworkListRunner } from "../libcni/network-list-runner.js";
import { RunningPlugins } from "../libcni/running-plugins.js";
import { StatusProbe } from "./status-probe.js";

/** In the directory of the cache, beside the results. */
const runningDirectory = "dockershim-running";
/** For orphaned plugins to end; a tear-down waits longer for those of its pod. */
const orphanTimeoutMs = 500;

export interface CniPartsOptions extends Pick<
  InvokerOptions,
  "environment" | "limits" | "observe" | "namespaces" | "start"
> {
  readonly binDirs: readonly string[];
  readonly cacheDir: string;
  readonly log: Logger;
  /** Result directories beside our own where older shims left entries; the usual ones when not given. */
  readonly legacyResultDirs?: readonly string[];
  /** Flushes cached attachments in the background; not given where no pods are set up. */
  readonly flusher?: Flusher;
  /** Shared with other users of iptables; a new one with a detected backend when not given. */
  readonly iptables?: HostIptables;
  readonly natTables?: NatTables;
}

/** Used by network plugins and by the clean-up. */
export interface CniParts {
  readonly invoker: PluginInvoker;
  readonly running: RunningPlugins;
  readonly runner: NetworkListRunner;
  readonly cache: ResultCache;
  readonly attachments: Attachments;
  readonly iptables: HostIptables;
  readonly natTables: NatTables;
  /** Starts programs as the plugins are started. */
  readonly run: RunCommand;
}

export function createCniParts(options: CniPartsOptions): CniParts {
  const { log, cacheDir, legacyResultDirs, flusher } = options;
  const running = new RunningPlugins(join(cacheDir, runningDirectory), log);
  const invoker = new PluginInvoker({ ...options, running });
  const runner = new NetworkListRunner(invoker, log);
  const cache = new ResultCache(cacheDir, log, legacyResultDirs, flusher);
  const { start = startAsChild } = options;
  const run = commandRunner(start);
  const { iptables = new HostIptables({ mode: "auto", log, run }) } = options;
  const { natTables = hostNatTables(iptables) } = options;
  const attachments = new Attachments({ runner, cache, natTables, running, log });
  return { invoker, running, runner, cache, iptables, natTables, attachments, run };
}

export interface CniPluginOptions extends CniPartsOptions {
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
  const { runner, attachments, run } = parts;
  return new CniNetworkPlugin({
    name,
    reason,
    source,
    runner,
    attachments,
    status: new StatusProbe(runner),
    open: () => openParts(parts, log),
    log,
    run,
    ...(podCidrs === undefined ? {} : { podCidrs }),
    ...(timeouts === undefined ? {} : { timeouts }),
  });
}

async function openParts({ cache, running }: CniParts, log: Pick<Logger, "warn">): Promise<void> {
  await cache.open();
  try {
    await running.killOrphaned(deadline(orphanTimeoutMs, "kill orphaned CNI plugins"));
  } catch (error) {
    log.warn({ err: messageOf(error) }, "orphaned CNI plugin is still running");
  }
}
