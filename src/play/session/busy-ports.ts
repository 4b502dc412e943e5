/** Ports of this host that pods ask for and programs of this host have. A CNI plugin does not notice them. */
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { createServer } from "node:net";
import { ShimError } from "../../lib/errors.js";
import { hasCode } from "../../lib/files/file-errors.js";
import type { CriClient } from "../cri/client.js";
import { playHashAnnotation } from "../pod-config/cri-config.js";
import { type PodRecordDeps, readPodRecord } from "../node/pod-record.js";
import { type HostPort, hostPortsOf } from "../manifests/check-ports.js";
import { podUid } from "../manifests/names.js";
import type { Manifest } from "../manifests/read-manifests.js";

export interface BusyPortsDeps extends PodRecordDeps {
  readonly client: Pick<CriClient, "listPodSandboxes">;
  readonly isBusy: (port: HostPort) => Promise<boolean>;
}

/** Throws `conflict`, with all of them. Of ports of pods of play the CRI server judges. */
export async function refuseBusyPorts(
  manifests: readonly Pick<Manifest, "key" | "source" | "pod">[],
  deps: BusyPortsDeps,
  signal: AbortSignal,
): Promise<void> {
  const busy: { readonly manifest: (typeof manifests)[number]; readonly port: HostPort }[] = [];
  for (const manifest of manifests)
    for (const port of hostPortsOf(manifest)) if (await deps.isBusy(port)) busy.push({ manifest, port });
  if (busy.length === 0) return;
  const own = await portsOfPods(deps, signal);
  const problems = busy
    .filter(({ port }) => !own.has(nameOf(port)))
    .map(({ manifest: { key, source }, port }) => {
      const options = port.protocol === "UDP" ? "-lnup" : "-lntp";
      const who = `"ss ${options} sport = :${port.port}" shows which one`;
      const pod = `play pod "${key.namespace}/${key.name}" (${source})`;
      return `${pod}: port ${nameOf(port)} of this host: a program listens on it; ${who}`;
    });
  if (problems.length > 0) throw new ShimError("conflict", problems.join("\n"));
}

/** The host ports of all pods that play has made. */
async function portsOfPods(deps: BusyPortsDeps, signal: AbortSignal): Promise<ReadonlySet<string>> {
  const ports = new Set<string>();
  for (const { metadata, annotations } of await deps.client.listPodSandboxes({}, signal)) {
    const uid = metadata?.uid ?? "";
    if (annotations[playHashAnnotation] === undefined || podUid(uid) !== undefined) continue;
    const kept = await readPodRecord(uid, deps).catch(() => undefined); // A damaged record has no ports.
    for (const port of kept === undefined ? [] : hostPortsOf(kept)) ports.add(nameOf(port));
  }
  return ports;
}

function nameOf({ port, protocol }: HostPort): string {
  return `${port}/${protocol}`;
}

/** Whether this host cannot give the port to anyone now. False where that cannot be tried. */
export async function isPortBusy({ port, protocol, address }: HostPort): Promise<boolean> {
  if (protocol !== "TCP" && protocol !== "UDP") return false;
  try {
    if (protocol === "TCP") {
      const server = createServer();
      server.listen({ port, exclusive: true, ...(address === "" ? {} : { host: address }) });
      await once(server, "listening");
      server.close();
      await once(server, "close");
    } else {
      const socket = createSocket(address.includes(":") ? "udp6" : "udp4");
      try {
        socket.bind({ port, exclusive: true, ...(address === "" ? {} : { address }) });
        await once(socket, "listening");
      } finally {
        socket.close();
      }
    }
    return false;
  } catch (error) {
    return hasCode(error, "EADDRINUSE");
  }
}
