/** The network list of kubenet, made from the pod CIDR and the installed plugins. */
import { deadline } from "../../lib/abort.js";
import { messageOf } from "../../lib/errors.js";
import type { Logger } from "../../lib/log.js";
import type { Clock } from "../../lib/time.js";
import { parseNetworkList, requireUsable } from "../libcni/configuration.js";
import type { PluginInvoker } from "../libcni/invoke-plugin.js";
import { RefreshedSource, type NetworkState } from "../cni/network-source.js";
import {
  optionalPlugins,
  requiredPlugins,
  type OptionalPlugin,
  kubenetListText,
  type HairpinMode,
} from "./kubenet-conflist.js";
import { commonVersion, installedOf, type VersionSource } from "../libcni/versions.js";
import type { PodSubnet } from "../pod-cidrs.js";

export interface KubenetSourceOptions {
  readonly invoker: Pick<PluginInvoker, "find" | "binDirs">;
  readonly versions: VersionSource;
  readonly hairpinMode: HairpinMode;
  readonly log: Pick<Logger, "info" | "warn">;
  readonly clock?: Clock;
}

/** dockershim's words, which people search for. */
const noSubnets = "kubenet does not have netConfig. This is most likely due to lack of PodCIDR";

const versionTimeoutMs = 10_000;

export class KubenetSource extends RefreshedSource {
  #subnets: readonly PodSubnet[] = [];
  #mtuBytes = 0;
  #firewall = false;
  #missing: readonly OptionalPlugin[] = [];
  #fingerprint: string | undefined;

  constructor(private readonly options: KubenetSourceOptions) {
    super({ problem: noSubnets }, options);
  }

  get subnets(): readonly PodSubnet[] {
    return this.#subnets;
  }

  describe(): Readonly<Record<string, unknown>> {
    const { network, problem } = this.state();
    return {
      binDirs: this.options.invoker.binDirs,
      podCidrs: this.#subnets.map(({ cidr }) => cidr),
      mtuBytes: this.#mtuBytes,
      hairpinMode: this.options.hairpinMode,
      ...(network === undefined
        ? { problem }
        : { cniVersion: network.cniVersion, plugins: network.plugins.map(({ type }) => type) }),
    };
  }

  /** Whether the list has the plugin. */
  has(plugin: OptionalPlugin): boolean {
    return this.state().network?.plugins.some(({ type }) => type === plugin) === true;
  }

  /** Changes the given settings. The state is up to date when the promise resolves. */
  async configure(change: {
    readonly subnets?: readonly PodSubnet[];
    readonly mtuBytes?: number;
    /** Whether the firewall plugin is wanted. */
    readonly firewall?: boolean;
  }): Promise<void> {
    const { subnets = this.#subnets, mtuBytes = this.#mtuBytes, firewall = this.#firewall } = change;
    // The common case: each pod asks again whether the firewall plugin is wanted.
    const same = subnets === this.#subnets && mtuBytes === this.#mtuBytes && firewall === this.#firewall;
    if (same) return;
    this.#subnets = subnets;
    this.#mtuBytes = mtuBytes;
    this.#firewall = firewall;
    await this.refresh();
  }

  protected async look(): Promise<void> {
    const { invoker, versions } = this.options;
    const missing = await this.#missingRequired();
    if (missing !== undefined) {
      this.become({ problem: missing });
      return;
    }
    if (this.#subnets.length === 0) {
      this.become({ problem: noSubnets });
      return;
    }
    const wanted = optionalPlugins.filter((type) => type !== "firewall" || this.#firewall);
    const installed = await installedOf(wanted, invoker);
    this.#reportMissing(wanted.filter((type) => !installed.includes(type)));
    const types = [...requiredPlugins, ...installed];
    const fingerprint = await this.#fingerprintOf(types);
    if (fingerprint === this.#fingerprint) return;
    const version = await commonVersion(types, versions, deadline(versionTimeoutMs, "ask for versions"));
    if (version.cniVersion === undefined) {
      this.become({ problem: version.problem });
      return;
    }
    try {
      const text = kubenetListText({
        cniVersion: version.cniVersion,
        subnets: this.#subnets,
        mtuBytes: this.#mtuBytes,
        hairpinMode: this.options.hairpinMode,
        plugins: new Set(installed),
      });
      this.become({ network: requireUsable(parseNetworkList(text, "kubenet")) });
      this.#fingerprint = fingerprint;
    } catch (error) {
      this.become({ problem: messageOf(error) });
    }
  }

  async #missingRequired(): Promise<string | undefined> {
    const { invoker } = this.options;
    const installed = await installedOf(requiredPlugins, invoker);
    if (installed.length === requiredPlugins.length) return undefined;
    const directories = invoker.binDirs.map((directory) => JSON.stringify(directory)).join(" ");
    return `could not locate kubenet required CNI plugins [${requiredPlugins.join(" ")}] at [${directories}]`;
  }

  async #fingerprintOf(types: readonly string[]): Promise<string> {
    const binaries = await Promise.all(
      types.map((type) =>
        this.options.invoker.find(type).then(
          ({ fingerprint }) => fingerprint,
          () => "",
        ),
      ),
    );
    return JSON.stringify([this.#subnets, this.#mtuBytes, binaries]);
  }

  protected override become(state: NetworkState): void {
    const before = this.state();
    super.become(state);
    if (state.network === undefined) {
      this.#fingerprint = undefined;
      if (before.problem !== state.problem)
        this.options.log.warn({ reason: state.problem }, "kubenet is not ready");
      return;
    }
    if (before.network?.text === state.network.text) return;
    const { cniVersion, plugins } = state.network;
    this.options.log.info(
      { cniVersion, plugins: plugins.map(({ type }) => type) },
      "kubenet CNI plugins changed",
    );
  }

  #reportMissing(missing: readonly OptionalPlugin[]): void {
    if (missing.length > 0 && missing.join() !== this.#missing.join()) {
      this.options.log.warn({ missing }, "CNI plugins for some features of kubenet are not installed");
    }
    this.#missing = missing;
  }
}
