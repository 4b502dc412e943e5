/**
 * The connection to the engine's HTTP API: dockerode's docker-modem, which knows sockets, TLS and hijacked
 * connections. Other users of dockerode call its objects (`docker.getContainer(id).inspect()`). They cannot
 * be used here, because they
 *
 * - buffer answers without limit: labels and environments of tenants have any size;
 * - never settle when an answer is cut short;
 * - insert an id or image name into the path unchecked, so that `..` reaches another object.
 *
 * So only `dial` is used, which puts a request together; connection.ts sends it, client.ts has limits, deadlines
 * and errors. docker-modem's own way to send them runs `util.inspect` over all options of every request, also
 * when its debug log is off, and, when it is on (DEBUG=modem), shows credentials in headers.
 */
import Docker from "dockerode";
import { connect, isIP, type Socket } from "node:net";
import type { Readable } from "node:stream";
import { connect as connectByTls } from "node:tls";
import { linkAbort } from "../../../lib/abort.js";
import { Connections, type HttpAnswer, type OnAnswer } from "./connection.js";
import type { TcpEndpoint, UnixEndpoint } from "./endpoint.js";
import { connectTimeoutCode } from "./errors.js";

export interface ModemRequest {
  readonly method: string;
  /** With version and query. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly json?: object | undefined;
  readonly tar?: Buffer | Readable | undefined;
  /** The connection is to be upgraded to a raw stream. */
  readonly hijack?: true | undefined;
}

interface DialOptions {
  readonly path: string;
  readonly method: string;
  readonly headers: Record<string, string>;
  readonly options: { readonly _query: object; readonly _body: object } | undefined;
  readonly file: Buffer | Readable | undefined;
  readonly hijack: boolean;
  /** Not one of docker-modem's: it passes the options on. */
  readonly sending: Sending;
}

/** One request on its way. */
interface Sending {
  socket: Socket | undefined;
  isOver: boolean;
}

interface Composed {
  readonly path: string;
  readonly method: string;
  readonly headers: Record<string, string | number>;
}

type Body = string | Buffer | Readable | undefined;

/** The part that this file uses; dockerode declares it as `any`. */
interface DockerModem {
  dial(options: DialOptions, callback: OnAnswer): void;
  /** Called by `dial`. */
  buildRequest: (composed: Composed, context: DialOptions, body: Body, callback: OnAnswer) => void;
}

/** An address where nothing answers, not even with a refusal, is known before a user gives up. */
const longestConnectMs = 4_000;
const keepAliveDelayMs = 1_000;

/** One pool of connections to the engine. */
export class Modem {
  readonly #connections: Connections;
  readonly #modem: DockerModem;

  constructor(endpoint: UnixEndpoint | TcpEndpoint, idleMs: number) {
    this.#connections = new Connections(() => openSocket(endpoint), idleMs);
    const target =
      endpoint.kind === "unix"
        ? { socketPath: endpoint.path, host: undefined, port: undefined }
        : { socketPath: undefined, host: endpoint.host, port: endpoint.port };
    const docker = withoutDockerHost(() => new Docker({ ...target, protocol: "http" }));
    this.#modem = docker.modem as unknown as DockerModem;
    const host = endpoint.kind === "unix" ? "localhost" : formatHost(endpoint);
    this.#modem.buildRequest = ({ method, path, headers }, { hijack, sending }, body, callback) => {
      if (sending.isOver) return;
      try {
        headers["Host"] = host;
        // Implied by HTTP/1.1. Proxies that pass headers on would say "close" to the engine.
        headers["Connection"] ??= "keep-alive";
        announceBody(headers, method, body);
        sending.socket = this.#connections.send({ method, path, headers, body, hijack }, callback);
      } catch (error) {
        callback(error as Error, null);
      }
    };
  }

  /**
   * The head of the answer, or the raw connection for a hijack that the engine accepted. Rejects with Node's
   * errors, and at once when `signal` aborts (with anything; the caller knows the reason).
   */
  async dial(request: ModemRequest, signal: AbortSignal): Promise<HttpAnswer | Socket> {
    return new Promise((resolve, reject) => {
      const sending: Sending = { socket: undefined, isOver: false };
      const link = linkAbort(signal, () => {
        sending.isOver = true;
        sending.socket?.destroy();
        reject(new Error("aborted"));
      });
      this.#modem.dial(dialOptions(request, sending), (error, result) => {
        if (sending.isOver) {
          result?.destroy();
          return;
        }
        sending.isOver = true;
        link[Symbol.dispose]();
        if (result === null) reject(error ?? new Error("no answer"));
        else resolve(result);
      });
    });
  }

  /** Closes all connections, also those in use. */
  close(): void {
    this.#connections.close();
  }
}

function openSocket(endpoint: UnixEndpoint | TcpEndpoint): Socket {
  const socket = endpoint.kind === "unix" ? connect({ path: endpoint.path }) : openTcpSocket(endpoint);
  return limitConnecting(socket, longestConnectMs);
}

/** A host that vanishes says nothing: without keepalive a stream of events would wait for it for ever. */
function openTcpSocket({ host, port, tls }: TcpEndpoint): Socket {
  const { verify: rejectUnauthorized, ...material } = tls ?? {};
  const servername = isIP(host) === 0 ? host : "";
  const socket =
    tls === undefined
      ? connect({ host, port })
      : connectByTls({ host, port, ...material, servername, rejectUnauthorized });
  // As options Node.js ignores them for TLS.
  return socket.once("connect", () => socket.setNoDelay(true).setKeepAlive(true, keepAliveDelayMs));
}

/** Destroys a socket that is not connected in time. The kernel alone would try for two minutes. */
export function limitConnecting(socket: Socket, connectMs: number): Socket {
  if (!socket.connecting) return socket;
  const timer = setTimeout(() => {
    socket.destroy(Object.assign(new Error("connection not made in time"), { code: connectTimeoutCode }));
  }, connectMs);
  timer.unref();
  for (const event of ["connect", "close"]) socket.once(event, () => clearTimeout(timer));
  return socket;
}

function formatHost({ host, port }: TcpEndpoint): string {
  return `${isIP(host) === 6 ? `[${host}]` : host}:${port}`;
}

/** docker-modem announces chunks where there is no body, and none where a stream is posted. */
function announceBody(headers: Composed["headers"], method: string, body: Body): void {
  if (body === undefined) {
    delete headers["Transfer-Encoding"];
    if (method === "POST" || method === "PUT") headers["Content-Length"] = 0;
  } else if (typeof body !== "string" && !Buffer.isBuffer(body)) {
    headers["Transfer-Encoding"] = "chunked";
  }
}

function dialOptions(request: ModemRequest, sending: Sending): DialOptions {
  return {
    path: request.path,
    method: request.method,
    headers: { ...request.headers },
    // docker-modem sends `options` itself as the body when there is no `_body`, and cuts off the last
    // character of a path with a question mark when `options` is empty.
    options: { _query: {}, _body: request.json ?? {} },
    file: request.tar,
    hijack: request.hijack ?? false,
    sending,
  };
}

/**
 * docker-modem reads DOCKER_HOST, and throws when it cannot parse it, even if it is given an endpoint. The
 * configuration has decided on the endpoint already, with regard to that variable.
 */
function withoutDockerHost<T>(construct: () => T): T {
  const saved = process.env["DOCKER_HOST"];
  delete process.env["DOCKER_HOST"];
  try {
    return construct();
  } finally {
    if (saved !== undefined) process.env["DOCKER_HOST"] = saved;
  }
}
