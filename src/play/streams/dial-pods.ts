/** Connections to pods whose addresses cannot be reached from here: through the port-forward of the server. */
import { once } from "node:events";
import type { Duplex } from "node:stream";
import { orAbort } from "../../lib/abort.js";
import { NamespaceMode, PodSandboxState } from "../../domain/cri.js";
import { ShimError, isKind } from "../../lib/errors.js";
import { shownText } from "../../lib/shown-text.js";
import type { CriClient } from "../cri/client.js";
import { type Address, type Dial, addressText } from "../cri/dial.js";
import { PortConnections } from "./port-connections.js";

const reasonBytes = 4096;
/** As in src/shim/streaming/port-connection.ts: the server says so before the pod says anything. */
const connectedWord = "connected\n";
const toldHeader = "x-dockershim-told";
/** The address of pods on the host network, whose loopback is the engine's host. */
const hostLoopback = "127.0.0.1";

export interface DialPodsDeps {
  readonly client: Pick<CriClient, "listPodSandboxes" | "podSandboxStatus" | "portForwardUrl">;
  /** To the server of the streams, and to what is no pod. */
  readonly dial: Dial;
  /** Ends the connections that are kept for the next use. */
  readonly ended: AbortSignal;
}

/** Knows pods by their addresses. */
export function dialPods({ client, dial, ended }: DialPodsDeps): Dial {
  const connections = new PortConnections({ client, dial, ended });
  let sandboxes: ReadonlyMap<string, string> = new Map();
  const everSeen = new Set<string>();
  const find = async (host: string, signal: AbortSignal): Promise<string | undefined> => {
    const found = new Map<string, string>(); // Another look-up may be under way.
    for (const { id, state } of await client.listPodSandboxes({}, signal)) {
      if (state !== PodSandboxState.SANDBOX_READY) continue;
      for (const address of await addressesOf(id, client, signal)) found.set(address, id);
    }
    for (const address of found.keys()) everSeen.add(address);
    sandboxes = found;
    return found.get(host);
  };
  return async (address, signal) => {
    const known = sandboxes.get(address.host);
    try {
      if (known !== undefined) return await connectThrough(known, address, connections, signal);
    } catch (error) {
      // Another pod may have the address now.
      if (signal.aborted || !isKind(error, "notFound", "precondition")) throw error;
    }
    const id = await find(address.host, signal);
    if (id !== undefined) return connectThrough(id, address, connections, signal);
    // From this host it may be the address of another one, as with two engines whose bridges have one subnet.
    if (everSeen.has(address.host))
      throw new ShimError("unavailable", `dial ${addressText(address)}: no pod has this address now`);
    return dial(address, signal);
  };
}

async function addressesOf(
  id: string,
  client: DialPodsDeps["client"],
  signal: AbortSignal,
): Promise<readonly string[]> {
  try {
    const { network, linux } = await client.podSandboxStatus(id, signal);
    if (linux?.namespaces?.options?.network === NamespaceMode.NODE) return [hostLoopback];
    return [network?.ip ?? "", ...(network?.additional_ips ?? []).map(({ ip }) => ip)].filter(
      (ip) => ip !== "",
    );
  } catch (error) {
    if (isKind(error, "notFound")) return []; // Removed since it was listed.
    throw error;
  }
}

async function connectThrough(
  id: string,
  address: Address,
  connections: PortConnections,
  signal: AbortSignal,
): Promise<Duplex> {
  const { port } = address;
  const connection = await connections.use(id, port, signal);
  const { streams } = connection;
  const headers = { port: String(port), requestid: connection.nextRequest() };
  const errors = streams.open({ ...headers, streamtype: "error", [toldHeader]: "connected" });
  errors.on("error", () => undefined); // The end of the data tells of it.
  errors.end();
  const data = streams.open({ ...headers, streamtype: "data" });
  data.once("close", () => {
    errors.destroy();
    connection.release();
  });
  try {
    const said = await orAbort(firstWords(errors), signal);
    if (said === connectedWord) {
      errors.resume();
      return data;
    }
    const reason = said === "" ? "the server has ended the connection" : shownText(said);
    throw new ShimError("unavailable", `dial ${addressText(address)}: ${reason}`);
  } catch (error) {
    data.destroy();
    // Nothing was said in time: it may be that nothing comes through any more.
    if (signal.aborted) streams.destroy();
    throw error;
  }
}

/** Empty when the stream ends without. */
async function firstWords(stream: Duplex): Promise<string> {
  const ended = Promise.race([once(stream, "end"), once(stream, "close")]).then(
    () => "",
    () => "",
  );
  const data = once(stream, "data").then(
    ([chunk]) => (chunk as Buffer).toString("utf8", 0, reasonBytes),
    () => "",
  );
  return Promise.race([data, ended]);
}
