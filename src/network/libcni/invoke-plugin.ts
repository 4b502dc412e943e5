/** One command of a plugin, by the specification: variables, configuration on stdin, an answer on stdout. */
import { ShimError } from "../../lib/errors.js";
import { noteWait } from "../../lib/waits.js";
import type { Logger } from "../../lib/log.js";
import { HeldNamespaces, type PodNamespaces } from "../../lib/linux/held-namespaces.js";
import { requireNamespace, type PodNamespace } from "../../lib/linux/network-namespaces.js";
import { markOf } from "../../lib/linux/process-mark.js";
import { formatJson, type JsonObject } from "../../lib/json/exact-json.js";
import { failureOf } from "./plugin-error.js";
import { runProcess, type ProcessLimits } from "./plugin-process.js";
import type { ProgramExit } from "../../shim/native/run-program.js";
import type { StartProgram } from "../../shim/native/start-program.js";
import type { ForgetPlugin, PluginEnd, RunningPlugins } from "./running-plugins.js";
import { stat } from "node:fs/promises";
import { join } from "node:path";

export type PluginCommand = "ADD" | "DEL" | "CHECK" | "GC" | "STATUS" | "VERSION";

export interface PluginCall extends PodNamespace {
  readonly type: string;
  readonly command: PluginCommand;
  /** Empty for commands about no attachment, like `netns`. */
  readonly containerId: string;
  readonly ifName: string;
  readonly args: readonly CniArgument[];
  readonly input: JsonObject;
  /** The pod, as `pod "default/web"`, for errors. Empty for commands about no attachment. */
  readonly subject: string;
}

export type CniArgument = readonly [key: string, value: string];

/** One run of a plugin, for metrics and benchmarks. */
export interface PluginRun {
  readonly type: string;
  readonly command: PluginCommand;
  readonly durationMs: number;
  readonly failed: boolean;
}

export interface InvokerOptions {
  readonly binDirs: readonly string[];
  readonly log: Pick<Logger, "debug">;
  /** Inherited by plugins: they find iptables by PATH. */
  readonly environment?: NodeJS.ProcessEnv;
  readonly limits?: Partial<ProcessLimits>;
  readonly observe?: (run: PluginRun) => void;
  readonly namespaces?: PodNamespaces;
  /** Records plugins that change something, for the next process. */
  readonly running?: Pick<RunningPlugins, "note">;
  /** As children of this process by default. */
  readonly start?: StartProgram;
}

/** Commands that change something: these must be recorded. */
const changing: ReadonlySet<PluginCommand> = new Set(["ADD", "DEL", "GC"]);

/** How long the path of a plugin is kept, unless a run fails: a directory before it may get one of that name. */
const placeCountsMs = 10_000;

export class PluginInvoker {
  readonly binDirs: readonly string[];
  readonly namespaces: PodNamespaces;
  readonly #places = new Map<string, { readonly path: string; readonly at: number }>();
  /** A copy: each look into `process.env` asks the C library. */
  readonly #environment: NodeJS.ProcessEnv;

  constructor(private readonly options: InvokerOptions) {
    this.binDirs = options.binDirs;
    this.#environment = { ...(options.environment ?? process.env) };
    this.namespaces = options.namespaces ?? new HeldNamespaces();
  }

  find(type: string): Promise<FoundPlugin> {
    return findPlugin(type, this.binDirs);
  }

  /**
   * What the plugin wrote to stdout. Every error names plugin, command and subject; the plugin's own code,
   * message and details are fields (`cniCode`, `cniMessage`, `cniDetails`). `unavailable` for temporary codes
   * and for a binary that is missing or cannot be run, `precondition` when the namespace is not the pod's any
   * more, the reason of `signal` when that ended it, else `unknown`.
   */
  async run(call: PluginCall, signal: AbortSignal): Promise<string> {
    const { type, command } = call;
    using noted = noteWait(signal, { action: () => nameOf(call), kind: "plugin" });
    try {
      const path = await this.#placeOf(type);
      const exit = await this.#measured(path, call, signal);
      if (exit.exitCode !== 0) throw failureOf(exit);
      const stderr = exit.stderr.trim();
      if (stderr !== "")
        this.options.log.debug({ plugin: type, command, stderr }, "CNI plugin wrote to stderr");
      return exit.stdout;
    } catch (error) {
      // The next attempt searches again.
      this.#places.delete(type);
      const fields = { plugin: type, command };
      const failure = pluginError(call, ShimError.from(error, "unknown")).within(nameOf(call), fields);
      noted.fail(failure);
      throw failure;
    }
  }

  async #placeOf(type: string): Promise<string> {
    const known = this.#places.get(type);
    if (known !== undefined && performance.now() - known.at < placeCountsMs) return known.path;
    this.#places.delete(type);
    const at = performance.now();
    const { path } = await this.find(type);
    this.#places.set(type, { path, at });
    return path;
  }

  async #measured(path: string, call: PluginCall, signal: AbortSignal): Promise<ProgramExit> {
    const begin = performance.now();
    let failed = true;
    let forget: ForgetPlugin | undefined;
    let end: PluginEnd = "killed";
    const { running, limits, start } = this.options;
    try {
      const exit = await runProcess(path, {
        environment: this.#environmentOf(call),
        input: formatJson(call.input),
        signal,
        beforeStart: () => {
          requireNamespace(this.namespaces, call);
        },
        ...(running === undefined || !changing.has(call.command)
          ? {}
          : {
              onStart: (pid: number, stat?: string) => {
                forget = running.note(call, markOf(pid, stat));
                return Promise.resolve();
              },
              onFailed: () => {
                forget?.("byItself");
                forget = undefined;
              },
            }),
        ...(limits === undefined ? {} : { limits }),
        ...(start === undefined ? {} : { start }),
      });
      failed = exit.exitCode !== 0;
      if (exit.signalName === undefined) end = "byItself";
      return exit;
    } finally {
      forget?.(end);
      const { type, command } = call;
      this.options.observe?.({ type, command, durationMs: performance.now() - begin, failed });
    }
  }

  /** Sets all six variables, so that a plugin inherits none of them. */
  #environmentOf({ command, containerId, netns, ifName, args }: PluginCall): NodeJS.ProcessEnv {
    const question = command === "VERSION";
    return {
      ...this.#environment,
      CNI_COMMAND: command,
      CNI_CONTAINERID: containerId,
      CNI_NETNS: question ? "dummy" : netns,
      CNI_IFNAME: question ? "dummy" : ifName,
      CNI_ARGS: args.map(([key, value]) => `${key}=${value}`).join(";"),
      CNI_PATH: question ? "dummy" : this.binDirs.join(":"),
    };
  }
}

function nameOf({ type, command, subject }: PluginCall): string {
  return `CNI plugin ${JSON.stringify(type)} ${command}${subject === "" ? "" : ` for ${subject}`}`;
}

/** A call about no attachment. */
export function nodeCall(type: string, command: PluginCommand, input: JsonObject): PluginCall {
  return { type, command, containerId: "", netns: "", ifName: "", args: [], input, subject: "" };
}

/** Adds to the error of an aborted call that the plugin was killed. */
function pluginError({ command }: PluginCall, error: ShimError): ShimError {
  if (error.kind !== "timeout" && error.kind !== "cancelled") return error;
  return error.within(command === "VERSION" || command === "STATUS" ? "no answer" : "killed");
}

export interface FoundPlugin {
  readonly type: string;
  readonly path: string;
  /** Changes with the file at the path. */
  readonly fingerprint: string;
}

/**
 * The first regular file `<directory>/<type>`, links followed. `invalid` for a type that is no file name,
 * `unavailable` when no directory has it: it may be installed later.
 */
export async function findPlugin(type: string, binDirs: readonly string[]): Promise<FoundPlugin> {
  if (type === "") throw new ShimError("invalid", "no plugin name provided");
  if (type.includes("/") || type.includes("\0") || type === "." || type === "..") {
    throw new ShimError("invalid", `invalid plugin name: ${type}`);
  }
  if (binDirs.length === 0) throw new ShimError("invalid", "no paths provided");
  for (const directory of binDirs) {
    const path = join(directory, type);
    const status = await stat(path, { bigint: true }).catch(() => undefined);
    if (status?.isFile() !== true) continue;
    const { dev, ino, size, mtimeNs, ctimeNs } = status;
    return { type, path, fingerprint: [path, dev, ino, size, mtimeNs, ctimeNs].map(String).join(" ") };
  }
  const text = `failed to find plugin ${JSON.stringify(type)} in path [${binDirs.join(" ")}]`;
  throw new ShimError("unavailable", text, { plugin: type });
}
