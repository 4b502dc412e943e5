/** A UDP flow keeps its first destination when rules change: none, or a dead pod. */
import { isIP } from "node:net";
import { isKind, messageOf } from "../../lib/errors.js";
import type { Logger } from "../../lib/log.js";
import type { PortMapping } from "../../domain/sandbox.js";
import type { AddressFamily } from "../iptables/iptables.js";
import { commandError, runCommand, type RunCommand } from "../iptables/run-command.js";

export interface UdpFlows {
  readonly hostPort: number;
  /** Only flows to this address of the host; empty: to any. */
  readonly hostIp?: string;
  /** Only flows that ended at this pod. */
  readonly podAddress?: string;
}

export class Conntrack {
  #missing = false;

  constructor(
    private readonly log: Pick<Logger, "info" | "warn">,
    private readonly run: RunCommand = runCommand,
  ) {}

  /** Flows that began before a pod had these ports. New releases of portmap do so, too. */
  async forgetBefore(
    mappings: readonly PortMapping[],
    addresses: readonly string[],
    signal: AbortSignal,
  ): Promise<void> {
    for (const { hostPort, hostIp } of udpPorts(mappings)) {
      for (const family of familiesOf(addresses)) await this.forgetUdp(family, { hostPort, hostIp }, signal);
    }
  }

  /** For a pod that is gone: flows that led to it. */
  async forgetPod(
    mappings: readonly PortMapping[],
    addresses: readonly string[],
    signal: AbortSignal,
  ): Promise<void> {
    for (const { hostPort, hostIp } of udpPorts(mappings)) {
      for (const podAddress of addresses) {
        await this.forgetUdp(familyOf(podAddress), { hostPort, hostIp, podAddress }, signal);
      }
    }
  }

  /** Best effort: a failure is logged. Without the tool nothing happens. */
  async forgetUdp(family: AddressFamily, flows: UdpFlows, signal: AbortSignal): Promise<void> {
    if (this.#missing || !concerns(family, flows.hostIp)) return;
    const words = deleteWords(family, flows);
    try {
      const exit = await this.run("conntrack", words, { signal });
      // Nothing to delete is reported as a failure.
      const none = `${exit.stdout}${exit.stderr}`.includes("0 flow entries have been deleted");
      if (exit.exitCode !== 0 && !none) throw commandError("conntrack", words, exit);
    } catch (error) {
      signal.throwIfAborted();
      if (isKind(error, "notFound")) {
        this.#missing = true;
        this.log.info({}, "conntrack is not installed, UDP flows to host ports outlive their pods");
        return;
      }
      this.log.warn({ family, ...flows, err: messageOf(error) }, "cannot delete UDP flows");
    }
  }
}

export function deleteWords(
  family: AddressFamily,
  { hostPort, hostIp = "", podAddress }: UdpFlows,
): readonly string[] {
  return [
    ...["-D", "-p", "udp", "--orig-port-dst", String(hostPort)],
    ...(isEveryAddress(hostIp) ? [] : ["--orig-dst", hostIp]),
    ...(podAddress === undefined ? [] : ["--reply-src", podAddress]),
    ...(family === "ipv6" ? ["-f", "ipv6"] : []),
  ];
}

function udpPorts(mappings: readonly PortMapping[]): readonly PortMapping[] {
  return mappings.filter(({ protocol, hostPort }) => protocol === "udp" && hostPort > 0);
}

function familyOf(address: string): AddressFamily {
  return isIP(address) === 6 ? "ipv6" : "ipv4";
}

function familiesOf(addresses: readonly string[]): readonly AddressFamily[] {
  return [...new Set(addresses.map(familyOf))];
}

function isEveryAddress(hostIp: string): boolean {
  return hostIp === "" || hostIp === "0.0.0.0" || hostIp === "::";
}

function concerns(family: AddressFamily, hostIp = ""): boolean {
  return hostIp === "" || familyOf(hostIp) === family;
}
