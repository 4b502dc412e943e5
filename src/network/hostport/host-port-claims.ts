/** Host ports by pod. The portmap plugin would map one port to two pods, of which one is never reached. */
import type { HostPortOwner } from "../../shim/ports/network-plugin.js";
import { isIP, SocketAddress } from "node:net";
import { ShimError } from "../../lib/errors.js";
import type { PortMapping } from "../../domain/sandbox.js";

/** Sandboxes whose network is set up, by their records. */
export type ReadOwners = (signal: AbortSignal) => Promise<readonly HostPortOwner[]>;

export class HostPortClaims {
  /** Claims of this process; undefined for a sandbox that was torn down, whatever its record says. */
  readonly #claims = new Map<string, HostPortOwner | undefined>();

  constructor(private readonly readOwners: ReadOwners = () => Promise.resolve([])) {}

  /** `conflict`, naming the owner, when a port is taken; else it is the sandbox's until `release`. */
  async claim(wanted: HostPortOwner, signal: AbortSignal): Promise<void> {
    if (!hasHostPorts(wanted)) return;
    const written = await this.readOwners(signal);
    // No await from here on: of two concurrent set-ups the first one gets the port.
    const owners = new Map<string, HostPortOwner | undefined>([
      ...written.map((owner) => [owner.sandboxId, owner] as const),
      ...this.#claims,
    ]);
    requireFreePorts(
      wanted,
      [...owners.values()].filter((owner) => owner !== undefined),
    );
    this.#claims.set(wanted.sandboxId, wanted);
    this.#forgetReleased(written);
  }

  /** The sandbox was torn down, or never set up. */
  release(owner: Pick<HostPortOwner, "sandboxId" | "portMappings">): void {
    if (hasHostPorts(owner) || this.#claims.has(owner.sandboxId))
      this.#claims.set(owner.sandboxId, undefined);
  }

  /** A released claim is kept as long as a record names the sandbox as an owner. */
  #forgetReleased(written: readonly HostPortOwner[]): void {
    const known = new Set(written.map(({ sandboxId }) => sandboxId));
    for (const [id, owner] of this.#claims)
      if (owner === undefined && !known.has(id)) this.#claims.delete(id);
  }
}

/** Throws `conflict` when one of `owners`, beside the sandbox itself, has a port that `wanted` asks for. */
export function requireFreePorts(wanted: HostPortOwner, owners: readonly HostPortOwner[]): void {
  for (const mapping of wanted.portMappings) {
    const owner = owners.find(
      ({ sandboxId, portMappings }) =>
        sandboxId !== wanted.sandboxId && portMappings.some((other) => overlap(mapping, other)),
    );
    if (owner === undefined) continue;
    const { hostPort, protocol, hostIp } = mapping;
    const where = hostIp === "" ? "" : ` on ${hostIp}`;
    throw new ShimError(
      "conflict",
      `host port ${hostPort}/${protocol}${where} for pod "${wanted.name}_${wanted.namespace}": taken by pod "${owner.name}_${owner.namespace}" (sandbox ${owner.sandboxId})`,
      { hostPort, protocol, ownerSandboxId: owner.sandboxId },
    );
  }
}

function hasHostPorts({ portMappings }: Pick<HostPortOwner, "portMappings">): boolean {
  return portMappings.some(({ hostPort }) => hostPort > 0);
}

function overlap(left: PortMapping, right: PortMapping): boolean {
  return (
    left.hostPort > 0 &&
    left.hostPort === right.hostPort &&
    left.protocol === right.protocol &&
    addressesOverlap(left.hostIp, right.hostIp)
  );
}

/** An empty address is all of both families, an unspecified one all of its own. */
function addressesOverlap(left: string, right: string): boolean {
  if (left === "" || right === "") return true;
  if (isIP(left) !== isIP(right)) return false;
  const [one, other] = [canonical(left), canonical(right)];
  return one === other || [one, other].some((address) => address === "0.0.0.0" || address === "::");
}

function canonical(address: string): string {
  if (isIP(address) !== 6) return address;
  return new SocketAddress({ address, family: "ipv6" }).address;
}
