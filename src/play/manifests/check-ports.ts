/** Ports of the host that two pods or two services of the same files ask for. */
import type { Manifest } from "./manifest.js";
import type { Service } from "./workloads.js";

export interface PortConflict {
  readonly reason: string;
  /** Index of the later pod or service. */
  readonly index: number;
  /** Index of the earlier one. */
  readonly other: number;
}

export interface HostPort {
  readonly port: number;
  readonly protocol: string;
  /** Empty: all addresses. */
  readonly address: string;
}

/** The first conflict of each pod. Pods that have one take no ports. */
export function hostPortConflicts(pods: readonly Manifest[]): readonly PortConflict[] {
  const taken: (HostPort & { readonly index: number })[] = [];
  const conflicts: PortConflict[] = [];
  pods.forEach((manifest, index) => {
    const wanted = hostPortsOf(manifest);
    const found = wanted
      .map((port) => ({ port, other: taken.find((one) => overlaps(one, port)) }))
      .find(({ other }) => other !== undefined);
    if (found?.other === undefined) {
      taken.push(...wanted.map((port) => ({ ...port, index })));
      return;
    }
    const { port, protocol } = found.port;
    const reason = `port ${port}/${protocol} of this host`;
    conflicts.push({ index, other: found.other.index, reason });
  });
  return conflicts;
}

function overlaps(left: HostPort, right: HostPort): boolean {
  const { port, protocol, address } = left;
  const isSameAddress = address === "" || right.address === "" || address === right.address;
  return port === right.port && protocol === right.protocol && isSameAddress;
}

export function hostPortsOf({ pod }: Pick<Manifest, "pod">): readonly HostPort[] {
  const { containers, hostNetwork } = pod.spec;
  return containers.flatMap(({ ports = [] }) =>
    ports.flatMap(({ hostPort, containerPort, protocol = "TCP", hostIP = "" }) => {
      const port = hostPort ?? (hostNetwork === true ? containerPort : undefined);
      const address = hostIP === "0.0.0.0" || hostIP === "::" ? "" : hostIP;
      return port === undefined ? [] : [{ port, protocol, address }];
    }),
  );
}

export function nodePortConflicts(services: readonly Service[]): readonly PortConflict[] {
  const taken = new Map<string, number>();
  const conflicts: PortConflict[] = [];
  services.forEach(({ ports }, index) => {
    for (const { nodePort, protocol } of ports) {
      if (nodePort === undefined) continue;
      const key = `${nodePort}/${protocol}`;
      const other = taken.get(key);
      if (other !== undefined) conflicts.push({ index, other, reason: `nodePort ${key}` });
      taken.set(key, index);
    }
  });
  return conflicts;
}
