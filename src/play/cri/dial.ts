/** Connections to pods and to the servers of streams: the one place that knows how they are reached. */
import { connect, type NetConnectOpts, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { linkAbort } from "../../lib/abort.js";
import { isKind, ShimError } from "../../lib/errors.js";

export interface Address {
  /** A name or an IP address, without brackets. */
  readonly host: string;
  readonly port: number;
}

/** Rejects with `unavailable` (no answer), `unsupported` (pods are out of reach), and when `signal` aborts. */
export type Dial = (address: Address, signal: AbortSignal) => Promise<Duplex>;

/** From this host, on which the pods run. */
export const dialFromHere: Dial = (address, signal) =>
  connectTo({ ...address, allowHalfOpen: true, noDelay: true }, `dial ${addressText(address)}`, signal);

function connectTo(options: NetConnectOpts, action: string, signal: AbortSignal): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(options);
    const link = linkAbort(signal, () => {
      socket.destroy();
      reject(ShimError.from(signal.reason));
    });
    socket.once("error", (error: NodeJS.ErrnoException) => {
      link[Symbol.dispose]();
      const reason = reasons[error.code ?? ""] ?? error.message;
      reject(new ShimError("unavailable", `${action}: ${reason}`, {}, { cause: error }));
    });
    socket.once("connect", () => {
      link[Symbol.dispose]();
      resolve(socket);
    });
  });
}

const reasons: Readonly<Record<string, string>> = {
  ECONNREFUSED: "connection refused",
  ECONNRESET: "connection reset",
  EHOSTUNREACH: "no route to host",
  ENETUNREACH: "network is unreachable",
  ETIMEDOUT: "connection timed out",
  ENOTFOUND: "no such host",
};

/** `10.0.0.1:80`, `[fd00::1]:80` */
export function addressText({ host, port }: Address): string {
  return `${host.includes(":") ? `[${host}]` : host}:${port}`;
}

/** `dockershim forward` has a second socket of this name beside that of the CRI: for streams' servers. */
export const streamsSocketSuffix = ".streams";

/** From this host; for a socket of `dockershim forward`, from the container that it leads to. */
export function dialStreamsOf(endpoint: string): Dial {
  const path = endpoint.replace(/^unix:\/\//, "") + streamsSocketSuffix;
  return async (address, signal) => {
    let socket: Socket;
    try {
      socket = await connectTo({ path, allowHalfOpen: true }, `dial ${addressText(address)}`, signal);
    } catch (error) {
      if (isKind(error, "unavailable")) return dialFromHere(address, signal);
      throw error;
    }
    socket.write(`${addressText(address)}\n`);
    return socket;
  };
}
