/** `dockershim pod port-forward`: local ports whose connections end in the pod. */
import { createServer, type Server, type Socket } from "node:net";
import { linkAbort } from "../../lib/abort.js";
import { messageOf, ShimError } from "../../lib/errors.js";
import { addressText, type Dial } from "../cri/dial.js";
import { forwardPort } from "../streams/forward-port.js";

export interface PortPair {
  /** 0: any free one. */
  readonly local: number;
  readonly remote: number;
}

/** `8080:80`, `80` (the same port here) or `:80` (any free port here). Throws `invalid`. */
export function parsePortPair(text: string): PortPair {
  const [, first = "", second] = /^(\d{0,5})(?::(\d{1,5}))?$/.exec(text) ?? [];
  const remote = Number(second ?? first);
  const local = first === "" ? 0 : Number(first);
  if (remote < 1 || remote > 65_535 || local > 65_535 || text === "")
    throw new ShimError("invalid", `port ${JSON.stringify(text)}: write LOCAL:REMOTE, PORT or :REMOTE`);
  return { local, remote };
}

export interface ForwardDeps {
  readonly dial: Dial;
  /** What the CRI server answers to PortForward. */
  readonly url: (port: number) => Promise<string>;
  readonly report: (line: string) => void;
}

/** Until `signal` aborts. Rejects, with nothing left open, when a port cannot be listened on. */
export async function forwardPorts(
  pairs: readonly PortPair[],
  addresses: readonly string[],
  { dial, url, report }: ForwardDeps,
  signal: AbortSignal,
): Promise<void> {
  const servers: Server[] = [];
  const sockets = new Set<Socket>();
  const running = new Set<Promise<void>>();
  try {
    const places: string[] = [];
    for (const { local, remote } of pairs) {
      for (const host of addresses) {
        const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
          sockets.add(socket);
          socket.on("error", () => undefined);
          socket.once("close", () => sockets.delete(socket));
          const forwarding = url(remote)
            .then((at) => forwardPort(at, remote, socket, dial, signal))
            .catch((error: unknown) => {
              socket.destroy();
              if (!signal.aborted) report(`a connection to port ${remote} failed: ${messageOf(error)}`);
            })
            .finally(() => running.delete(forwarding));
          running.add(forwarding);
        });
        servers.push(server);
        const port = await listen(server, host, local);
        places.push(`forwarding from ${addressText({ host, port })} to ${remote}`);
      }
    }
    for (const place of places) report(place);
    await new Promise<void>((resolve) => linkAbort(signal, resolve));
  } finally {
    const closed = servers.map((server) => new Promise((resolve) => server.close(resolve)));
    for (const socket of sockets) socket.destroy();
    await Promise.all([...closed, ...running]);
  }
}

const reasons: Readonly<Record<string, string>> = {
  EADDRINUSE: "the port is in use",
  EADDRNOTAVAIL: "this host does not have the address",
  EACCES: "permission denied",
};

function listen(server: Server, host: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => {
      const reason = reasons[error.code ?? ""] ?? error.message;
      const message = `listen on ${addressText({ host, port })}: ${reason}`;
      reject(new ShimError("precondition", message, {}, { cause: error }));
    });
    server.listen({ host, port }, () => {
      const bound = server.address();
      resolve(typeof bound === "object" && bound !== null ? bound.port : port);
    });
  });
}
