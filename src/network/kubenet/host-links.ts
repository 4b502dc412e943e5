/** Network interfaces of the node, and the MTU of pods when none is given. */
import { outputOf, type RunCommand } from "../iptables/run-command.js";
import { kubenetBridge } from "./kubenet-conflist.js";

/** The default of dockershim: it fits into the common tunnels. */
export const fallbackMtuBytes = 1460;
const leastMtuBytes = 576;
const mostMtuBytes = 999_998;

export interface HostLink {
  readonly name: string;
  readonly mtuBytes: number;
  readonly flags: ReadonlySet<string>;
  readonly macAddress: string;
  /** The bridge that it belongs to. */
  readonly master?: string;
}

/** Network interfaces of the host. Throws when `ip` fails or is not there. */
export async function readLinks(run: RunCommand, signal: AbortSignal): Promise<readonly HostLink[]> {
  return parseLinks(await outputOf(run, "ip", ["-json", "link", "show"], { signal }));
}

/** What `ip -json link show` prints. */
export function parseLinks(output: string): readonly HostLink[] {
  const entries = JSON.parse(output) as unknown;
  if (!Array.isArray(entries)) return [];
  return entries.flatMap((entry: unknown) => {
    const { ifname, mtu, flags, address, master } = (entry ?? {}) as Record<string, unknown>;
    if (typeof ifname !== "string" || typeof mtu !== "number") return [];
    return [
      {
        name: ifname,
        mtuBytes: mtu,
        flags: new Set(Array.isArray(flags) ? flags.filter((flag) => typeof flag === "string") : []),
        macAddress: typeof address === "string" ? address : "",
        ...(typeof master === "string" ? { master } : {}),
      },
    ];
  });
}

/**
 * Of interfaces that are up, neither loopback nor point-to-point, without kubenet's bridge and its ports,
 * whose low MTU would never rise again. Undefined for none, or out of bounds.
 */
export function smallestMtuBytes(links: readonly HostLink[]): number | undefined {
  const usable = links.filter(
    ({ name, master, flags }) =>
      flags.has("UP") &&
      !flags.has("LOOPBACK") &&
      !flags.has("POINTOPOINT") &&
      name !== kubenetBridge &&
      master !== kubenetBridge,
  );
  const smallest = Math.min(...usable.map(({ mtuBytes }) => mtuBytes));
  return smallest >= leastMtuBytes && smallest <= mostMtuBytes ? smallest : undefined;
}
