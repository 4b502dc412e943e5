/** The network list of a directory, kept up to date with its files and with the installed plugins. */
import { messageOf } from "../../lib/errors.js";
import type { Logger } from "../../lib/log.js";
import type { Clock } from "../../lib/time.js";
import { readConfigurationFiles, type ConfigurationFile } from "../libcni/configuration-files.js";
import type { NetworkList } from "../libcni/configuration.js";
import { DirectoryWatch, type WatchDirectory } from "../../lib/files/directory-watch.js";
import type { PluginInvoker } from "../libcni/invoke-plugin.js";
import { PluginVersions } from "../libcni/versions.js";
import { RefreshedSource, type NetworkState } from "./network-source.js";
import { binariesOf, validateList } from "../libcni/validate-list.js";

/** Editors and installers write in several steps. */
const debounceMs = 200;

export interface ConfigurationDirectoryOptions {
  readonly directory: string;
  readonly invoker: PluginInvoker;
  readonly log: Pick<Logger, "info" | "warn">;
  readonly clock?: Clock;
  readonly watchDirectory?: WatchDirectory;
}

export interface SkippedFile {
  readonly path: string;
  readonly problem: string;
}

/**
 * The first file, by name, that is a valid list whose plugins are installed and speak its version, and not
 * loopback alone. Plugins are run only when a file or a binary has changed. Without a valid file the state is
 * a problem, and the last valid list is kept for tear-downs.
 */
export class ConfigurationDirectory extends RefreshedSource {
  readonly #versions: PluginVersions;
  readonly #watch: DirectoryWatch;
  #skipped: readonly SkippedFile[] = [];
  /** The problem and the content of each reported file. */
  #reported = new Map<string, string>();
  #fingerprint: string | undefined;
  #stopping = new AbortController();
  #cancelDebounce: () => void = () => undefined;

  constructor(private readonly options: ConfigurationDirectoryOptions) {
    super({ problem: `${options.directory} is being read, its plugins have not answered yet` }, options);
    this.#versions = new PluginVersions(options.invoker);
    const { watchDirectory } = options;
    this.#watch = new DirectoryWatch(options.directory, {
      onChange: () => this.#changed(),
      ...(watchDirectory === undefined ? {} : { watchDirectory }),
    });
  }

  override async start(): Promise<void> {
    this.#stopping = new AbortController();
    await super.start();
  }

  override async stop(): Promise<void> {
    this.#cancelDebounce();
    this.#watch.stop();
    this.#stopping.abort();
    await super.stop();
  }

  describe(): Readonly<Record<string, unknown>> {
    const { network, problem } = this.state();
    return {
      confDir: this.options.directory,
      binDirs: this.options.invoker.binDirs,
      ...(network === undefined
        ? { problem }
        : {
            file: network.source,
            network: network.name,
            cniVersion: network.cniVersion,
            plugins: network.plugins.map(({ type }) => type),
          }),
      skippedFiles: this.#skipped,
    };
  }

  #changed(): void {
    if (this.isStopped) return;
    this.#cancelDebounce();
    this.#cancelDebounce = this.clock.after(debounceMs, () => void this.refresh());
  }

  protected async look(): Promise<void> {
    // The watch comes first, so that a change after the read is not missed.
    if (!this.isStopped) await this.#watch.renew();
    const { directory } = this.options;
    let files: readonly ConfigurationFile[];
    try {
      files = await readConfigurationFiles(directory);
    } catch (error) {
      this.#fingerprint = undefined;
      this.#show({ problem: messageOf(error) }, []);
      return;
    }
    const fingerprint = await this.#fingerprintOf(files);
    if (fingerprint === this.#fingerprint) return;
    const { state, skipped, worthRetry } = await this.#choose(files);
    // The plugins were stopped before they answered.
    if (this.#stopping.signal.aborted) return;
    this.#fingerprint = worthRetry ? undefined : fingerprint;
    this.#report(files, skipped);
    this.#show(state, skipped);
  }

  async #choose(files: readonly ConfigurationFile[]): Promise<Choice> {
    const skipped: SkippedFile[] = [];
    let worthRetry = false;
    let network: NetworkList | undefined;
    for (const { path, list, problem = "" } of files) {
      if (list === undefined) {
        skipped.push({ path, problem });
        continue;
      }
      // The plugins of a list behind the chosen one need not be there.
      if (network !== undefined) continue;
      // For lo alone, as nodes have it beside the file of their network, or before that is installed.
      if (list.plugins.every(({ type }) => type === "loopback")) {
        skipped.push({ path, problem: `its only plugin is "loopback", which gives pods no address` });
        continue;
      }
      const tools = { invoker: this.options.invoker, versions: this.#versions };
      const validation = await validateList(list, tools, this.#stopping.signal);
      if (validation.network !== undefined) ({ network } = validation);
      else skipped.push({ path, problem: validation.problems.join("; ") });
      worthRetry ||= validation.worthRetry;
    }
    if (network !== undefined) return { state: { network }, skipped, worthRetry };
    const { directory } = this.options;
    const reasons = skipped.map(({ path, problem }) =>
      problem.includes(path) ? problem : `${path}: ${problem}`,
    );
    const problem =
      files.length === 0
        ? `no networks found in ${directory}`
        : `no valid networks found in ${directory}: ${reasons.join("; ")}`;
    return { state: { problem }, skipped, worthRetry };
  }

  /** Changes with the content of any file and with any binary that a file names. */
  async #fingerprintOf(files: readonly ConfigurationFile[]): Promise<string> {
    const types = new Set(files.flatMap(({ list }) => (list === undefined ? [] : binariesOf(list))));
    const binaries = [...types].map((type) =>
      this.options.invoker.find(type).then(
        (found) => found.fingerprint,
        () => `${type} missing`,
      ),
    );
    const contents = files.map(({ path, content, problem }) => [path, content, problem ?? ""]);
    return JSON.stringify([contents, await Promise.all(binaries)]);
  }

  #show(state: NetworkState, skipped: readonly SkippedFile[]): void {
    const { log } = this.options;
    const before = this.state();
    this.become(state);
    this.#skipped = skipped;
    if (state.network === undefined) {
      if (before.problem !== state.problem) log.warn({ reason: state.problem }, "no CNI network");
      return;
    }
    if (before.network?.text !== state.network.text || before.network.source !== state.network.source) {
      const { name: network, source: file, cniVersion } = state.network;
      log.info({ network, file, cniVersion }, "using CNI configuration");
    }
  }

  /** Logs each file once per content and problem. */
  #report(files: readonly ConfigurationFile[], skipped: readonly SkippedFile[]): void {
    const contents = new Map(files.map(({ path, content }) => [path, content]));
    const reported = new Map<string, string>();
    for (const { path, problem } of skipped) {
      const said = `${problem}\n${contents.get(path) ?? ""}`;
      reported.set(path, said);
      if (this.#reported.get(path) === said) continue;
      this.options.log.warn({ file: path, reason: problem }, "skipping a CNI configuration file");
    }
    this.#reported = reported;
  }
}

interface Choice {
  readonly state: NetworkState;
  readonly skipped: readonly SkippedFile[];
  readonly worthRetry: boolean;
}
