/** One command to one plugin, by the protocol: environment in, configuration on stdin, result or error on stdout. */
import { ShimError } from "../../shim/base/errors.js";
import type { Logger } from "../../shim/base/log.js";
import { formatJson, type JsonObject } from "./json-text.js";
import { failureOf } from "./plugin-error.js";
import { findPlugin, type FoundPlugin } from "./plugin-lookup.js";
import { runProcess, type ProcessExit, type ProcessLimits } from "./plugin-process.js";
import { Slots } from "./slots.js";

export type PluginCommand = "ADD" | "DEL" | "CHECK" | "GC" | "STATUS" | "VERSION";

export interface PluginCall {
  readonly type: string;
  readonly command: PluginCommand;
  /** Empty where the command is about no attachment, and `netns` also where the namespace is gone. */
  readonly containerId: string;
  readonly netns: string;
  readonly ifName: string;
  readonly args: readonly CniArgument[];
  readonly input: JsonObject;
  /** Whom it is done for, as `pod "default/web"`; part of every error. Empty for questions about the node. */
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
  /** What plugins inherit: they call iptables and the like by PATH. */
  readonly environment?: NodeJS.ProcessEnv;
  /** Plugins that may run at once for pods. Questions about the node do not queue behind them. */
  readonly parallelism?: number;
  readonly limits?: Partial<ProcessLimits>;
  readonly observe?: (run: PluginRun) => void;
}

/** Commands that change a pod's network, which are many and slow. */
const limited: ReadonlySet<PluginCommand> = new Set(["ADD", "DEL", "CHECK", "GC"]);

export class PluginInvoker {
  readonly binDirs: readonly string[];
  readonly #slots: Slots;

  constructor(private readonly options: InvokerOptions) {
    this.binDirs = options.binDirs;
    this.#slots = new Slots(options.parallelism ?? 10);
  }

  find(type: string): Promise<FoundPlugin> {
    return findPlugin(type, this.binDirs);
  }

  /**
   * What the plugin wrote to stdout. Every error names plugin, command and subject; the plugin's own code, message
   * and details are fields (`cniCode`, `cniMessage`, `cniDetails`). `unavailable` for the codes that pass and for a
   * binary that is missing or cannot be run, the reason of `signal` when that ended it, else `unknown`.
   */
  async run(call: PluginCall, signal: AbortSignal): Promise<string> {
    const { type, command, subject } = call;
    try {
      const { path } = await this.find(type);
      const work = (): Promise<ProcessExit> => this.#measured(path, call, signal);
      const exit = await (limited.has(command) ? this.#slots.run(signal, work) : work());
      if (exit.exitCode !== 0) throw failureOf(exit);
      const stderr = exit.stderr.trim();
      if (stderr !== "")
        this.options.log.debug({ plugin: type, command, stderr }, "a plugin had something to say");
      return exit.stdout;
    } catch (error) {
      throw pluginError(call, ShimError.from(error, "unknown")).within(
        `CNI plugin ${JSON.stringify(type)} ${command}${subject === "" ? "" : ` for ${subject}`}`,
        { plugin: type, command },
      );
    }
  }

  async #measured(path: string, call: PluginCall, signal: AbortSignal): Promise<ProcessExit> {
    const start = performance.now();
    let failed = true;
    try {
      const exit = await runProcess(path, {
        environment: this.#environmentOf(call),
        input: formatJson(call.input),
        signal,
        ...(this.options.limits === undefined ? {} : { limits: this.options.limits }),
      });
      failed = exit.exitCode !== 0;
      return exit;
    } finally {
      const { type, command } = call;
      this.options.observe?.({ type, command, durationMs: performance.now() - start, failed });
    }
  }

  /** All six variables are always set, so that none of this process's own reaches a plugin. */
  #environmentOf({ command, containerId, netns, ifName, args }: PluginCall): NodeJS.ProcessEnv {
    const question = command === "VERSION";
    return {
      ...(this.options.environment ?? process.env),
      CNI_COMMAND: command,
      CNI_CONTAINERID: containerId,
      CNI_NETNS: question ? "dummy" : netns,
      CNI_IFNAME: question ? "dummy" : ifName,
      CNI_ARGS: args.map(([key, value]) => `${key}=${value}`).join(";"),
      CNI_PATH: question ? "dummy" : this.binDirs.join(":"),
    };
  }
}

/** A call about no attachment. */
export function nodeCall(type: string, command: PluginCommand, input: JsonObject): PluginCall {
  return { type, command, containerId: "", netns: "", ifName: "", args: [], input, subject: "" };
}

/** Says of an aborted call that the plugin did not end by itself. */
function pluginError({ command }: PluginCall, error: ShimError): ShimError {
  if (error.kind !== "timeout" && error.kind !== "cancelled") return error;
  return error.within(command === "VERSION" || command === "STATUS" ? "no answer" : "killed");
}
