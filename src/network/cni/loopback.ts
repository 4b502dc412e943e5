/** Brings up `lo` of a pod. It ends with the namespace, so it needs no tear-down. */
import { ShimError } from "../../lib/errors.js";
import { outputOf, runCommand, type RunCommand } from "../iptables/run-command.js";
import { parseNetworkList } from "../libcni/configuration.js";
import { formatJson } from "../../lib/json/exact-json.js";
import { isLoopbackUp } from "./namespace-addresses.js";
import type { Attachment, NetworkListRunner } from "../libcni/network-list-runner.js";
import { requireNamespace } from "../../lib/linux/network-namespaces.js";

/** The network name of cached loopback attachments of dockershim and cri-dockerd with cni. */
export const loopbackNetworkName = "cni-loopback";

/** Theirs with cni and with kubenet. */
export const loopbackNetworkNames: readonly string[] = [loopbackNetworkName, "kubenet-loopback"];

/** 0.4.0: an older one makes the plugin print a result that contradicts its version. */
const configuration = { cniVersion: "0.4.0", name: loopbackNetworkName, plugins: [{ type: "loopback" }] };

/** Unless it is up: by the loopback plugin where there is one, else by `ip`. Nothing is cached. */
export async function bringUpLoopback(
  runner: NetworkListRunner,
  attachment: Attachment,
  signal: AbortSignal,
  run: RunCommand = runCommand,
): Promise<void> {
  if (isLoopbackUp(runner.invoker.namespaces, attachment)) return;
  const installed = await runner.invoker.find("loopback").catch(() => undefined);
  if (installed !== undefined) {
    const list = parseNetworkList(formatJson(configuration), "loopback");
    await runner.add(list, { ...attachment, capabilityArgs: {} }, signal);
    return;
  }
  const words = [`--net=${attachment.netns}`, "--", "ip", "link", "set", "lo", "up"];
  try {
    requireNamespace(runner.invoker.namespaces, attachment);
    await outputOf(run, "nsenter", words, { signal });
  } catch (error) {
    throw ShimError.from(error).within(`bring up lo of ${attachment.subject}`);
  }
}
