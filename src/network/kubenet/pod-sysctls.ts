/** Settings of a pod's network namespace that must be there before its interface. */
import { commandError, type RunCommand } from "../iptables/run-command.js";

/**
 * For pods with IPv6. Docker makes namespaces without a network with IPv6 switched off. And the kernel would wait a
 * second for another owner of each address, which there cannot be, while programs of the pod fail to bind to it.
 */
const settings = ["net.ipv6.conf.default.disable_ipv6=0", "net.ipv6.conf.default.dad_transmits=0"] as const;

/** Throws when a setting cannot be made. */
export async function prepareIpv6(run: RunCommand, netns: string, signal: AbortSignal): Promise<void> {
  // /proc/sys/net shows the namespace of whoever looks.
  const words = [`--net=${netns}`, "--", "sysctl", "-q", "-w", ...settings];
  const exit = await run("nsenter", words, { signal });
  if (exit.exitCode !== 0) throw commandError("nsenter", words, exit);
}
