/** The commands of the CNI specification for a whole network list, without the cache of results. */
import { aggregate, messageOf, ShimError } from "../../lib/errors.js";
import type { Logger } from "../../lib/log.js";
import type { NetworkList, PluginConfiguration } from "./configuration.js";
import { nodeCall, type CniArgument, type PluginCommand, type PluginInvoker } from "./invoke-plugin.js";
import type { JsonObject } from "../../lib/json/exact-json.js";
import type { PodNamespace } from "../../lib/linux/network-namespaces.js";
import { errorCodes, pluginErrorCode } from "./plugin-error.js";
import { convertResult, parseResult } from "./result.js";
import { isAtLeast } from "./versions.js";

/** One interface of one sandbox, as the commands about it name it. */
export interface Attachment extends PodNamespace {
  readonly containerId: string;
  readonly ifName: string;
  readonly args: readonly CniArgument[];
  /** All capability arguments; each plugin gets those that it declares. */
  readonly capabilityArgs: JsonObject;
  /** For messages, as `pod "default/web"`. */
  readonly subject: string;
}

export interface AttachmentKey {
  readonly containerId: string;
  readonly ifName: string;
}

const containerIdForm = /^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/;
const longestInterfaceName = 15;

export class NetworkListRunner {
  constructor(
    readonly invoker: PluginInvoker,
    private readonly log: Pick<Logger, "warn">,
  ) {}

  /**
   * ADD, first plugin to last, each with the result of the one before. The first failure ends it and undoes
   * nothing: `delete` does. `beforeNext` is called with each result but the last, before the next one.
   */
  async add(
    list: NetworkList,
    attachment: Attachment,
    signal: AbortSignal,
    beforeNext?: (result: JsonObject) => Promise<void>,
  ): Promise<JsonObject> {
    requireAttachment(attachment);
    let result: JsonObject | undefined;
    for (const [index, plugin] of list.plugins.entries()) {
      const stdout = await this.#run("ADD", list, plugin, attachment, result, signal);
      try {
        result = convertResult(parseResult(stdout, list.cniVersion), list.cniVersion);
      } catch (error) {
        throw ShimError.from(error).within(
          `CNI plugin ${JSON.stringify(plugin.type)} ADD for ${attachment.subject}`,
          { plugin: plugin.type, command: "ADD" },
        );
      }
      if (index + 1 < list.plugins.length) await beforeNext?.(result);
    }
    return result ?? { cniVersion: list.cniVersion };
  }

  /**
   * DEL, last plugin to first. The first failure ends it, as the specification demands: to undo its part, a
   * plugin may need what the plugins before it in the list have made (veth, address), also at the next try.
   * DEL is repeated until the whole list has succeeded.
   */
  async delete(
    list: NetworkList,
    attachment: Attachment,
    cachedResult: JsonObject | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    requireAttachment(attachment);
    const result = this.#previousResult(list, attachment, cachedResult);
    for (const plugin of [...list.plugins].reverse()) {
      try {
        await this.#run("DEL", list, plugin, attachment, result, signal);
      } catch (error) {
        // By the specification this plugin has nothing to undo.
        if (pluginErrorCode(error) !== errorCodes.unknownContainer) throw error;
      }
    }
  }

  /** CHECK, first plugin to last. `unsupported` below version 0.4.0; a list may switch it off. */
  async check(
    list: NetworkList,
    attachment: Attachment,
    cachedResult: JsonObject | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    requireAttachment(attachment);
    if (!isAtLeast(list.cniVersion, "0.4.0")) {
      const version = JSON.stringify(list.cniVersion);
      throw new ShimError(
        "unsupported",
        `configuration version ${version} does not support the CHECK command`,
      );
    }
    if (list.disableCheck) return;
    const result = this.#previousResult(list, attachment, cachedResult);
    for (const plugin of list.plugins) await this.#run("CHECK", list, plugin, attachment, result, signal);
  }

  /** GC of every plugin, going on after failures. Nothing below 1.1.0 or when the list switches it off. */
  async collectGarbage(
    list: NetworkList,
    valid: readonly AttachmentKey[],
    signal: AbortSignal,
  ): Promise<void> {
    if (!hasGarbageCollection(list)) return;
    const attachments = valid.map(({ containerId, ifName }) => ({
      containerID: containerId,
      ifname: ifName,
    }));
    const failures: unknown[] = [];
    for (const plugin of list.plugins) {
      const keys = { "cni.dev/valid-attachments": attachments, "cni.dev/attachments": attachments };
      const input = { ...inputFor(list, plugin, {}, undefined), ...keys };
      await this.invoker.run(nodeCall(plugin.type, "GC", input), signal).catch((error: unknown) => {
        failures.push(error);
      });
    }
    const failure = aggregate(failures);
    if (failure !== undefined) throw failure;
  }

  /** STATUS of every plugin; throws the first failure. Nothing runs below version 1.1.0. */
  async status(list: NetworkList, signal: AbortSignal): Promise<void> {
    if (!isAtLeast(list.cniVersion, "1.1.0")) return;
    for (const plugin of list.plugins) {
      await this.invoker.run(nodeCall(plugin.type, "STATUS", inputFor(list, plugin, {}, undefined)), signal);
    }
  }

  async #run(
    command: PluginCommand,
    list: NetworkList,
    plugin: PluginConfiguration,
    attachment: Attachment,
    result: JsonObject | undefined,
    signal: AbortSignal,
  ): Promise<string> {
    const { capabilityArgs, ...about } = attachment;
    const input = inputFor(list, plugin, capabilityArgs, result);
    return this.invoker.run({ ...about, type: plugin.type, command, input }, signal);
  }

  /** DEL of lists below 0.4.0 has no previous result. A result that cannot be converted is left out. */
  #previousResult(
    list: NetworkList,
    { subject }: Attachment,
    result: JsonObject | undefined,
  ): JsonObject | undefined {
    if (result === undefined || !isAtLeast(list.cniVersion, "0.4.0")) return undefined;
    try {
      return convertResult(result, list.cniVersion);
    } catch (error) {
      this.log.warn({ subject, err: messageOf(error) }, "cached CNI result does not fit its configuration");
      return undefined;
    }
  }
}

/** Whether the version of the list has the command GC, and the list does not disable it. */
export function hasGarbageCollection(list: NetworkList): boolean {
  return !list.disableGc && isAtLeast(list.cniVersion, "1.1.0");
}

function inputFor(
  list: NetworkList,
  plugin: PluginConfiguration,
  offered: JsonObject,
  prevResult: JsonObject | undefined,
): JsonObject {
  const taken = Object.entries(offered).filter(([name]) => plugin.capabilities.has(name));
  return {
    ...plugin.configuration,
    name: list.name,
    cniVersion: list.cniVersion,
    ...(taken.length === 0 ? {} : { runtimeConfig: Object.fromEntries(taken) }),
    ...(prevResult === undefined ? {} : { prevResult }),
  };
}

function requireAttachment({ containerId, ifName }: Attachment): void {
  if (!containerIdForm.test(containerId)) {
    throw new ShimError(
      "invalid",
      `container id ${JSON.stringify(containerId)}: not a name that plugins take`,
    );
  }
  const fits = ifName.length >= 1 && ifName.length <= longestInterfaceName && !/^\.\.?$|[/:\s]/.test(ifName);
  if (!fits) {
    throw new ShimError("invalid", `interface name ${JSON.stringify(ifName)}: not a name of an interface`);
  }
}
