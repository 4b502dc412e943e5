/**
 * The connection to the engine's HTTP API: dockerode's docker-modem, which knows sockets, TLS and hijacked
 * connections. Other users of dockerode call its objects (`docker.getContainer(id).inspect()`). They cannot
 * be used here, because they
 *
 * - buffer answers without limit: labels and environments of tenants have any size;
 * - never settle when an answer is cut short;
 * - insert an id or image name into the path unchecked, so that `..` reaches another object.
 *
 * So only `dial` is used, which makes the options of `node:http` for a request; client.ts has limits, deadlines
 * and errors. docker-modem's own way to send them runs `util.inspect` over all options of every request, also
 * when its debug log is off, and, when it is on (DEBUG=modem), shows credentials in headers.
 */
import Docker from "dockerode";
import {
  Agent as HttpAgent,
  type ClientRequest,
  type IncomingMessage,
  request as requestByHttp,
  type RequestOptions,
} from "node:http";
import { Agent as HttpsAgent, request as requestByHttps } from "node:https";
import { Socket } from "node:net";
import type { Readable } from "node:stream";
import { linkAbort } from "../../../lib/abort.js";
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
  request: ClientRequest | undefined;
  isOver: boolean;
}

type Body = string | Buffer | Readable | undefined;
type Callback = (error: Error | null, result: IncomingMessage | Socket | null) => void;

/** The part that this file uses; dockerode declares it as `any`. */
interface DockerModem {
  dial(options: DialOptions, callback: Callback): void;
  /** Called by `dial`. */
  buildRequest: (options: RequestOptions, context: DialOptions, data: Body, callback: Callback) => void;
}

/** An address where nothing answers, not even with a refusal, is known before a user gives up. */
const longestConnectMs = 4_000;

/** One pool of connections to the engine. */
export class Modem {
  readonly #agent: HttpAgent;
  readonly #modem: DockerModem;

  constructor(endpoint: UnixEndpoint | TcpEndpoint, idleMs: number) {
    const tls = endpoint.kind === "tcp" ? endpoint.tls : undefined;
    // After this time without data the agent closes a connection, unless a request has it. The pool gives out
    // the one that was used last, and drops closed ones when it looks at the one that was used first.
    const pool = { keepAlive: true, timeout: idleMs, maxFreeSockets: 32 };
    const { verify, ...material } = tls ?? {};
    this.#agent =
      tls === undefined
        ? new HttpAgent(pool)
        : new HttpsAgent({ ...pool, ...material, rejectUnauthorized: verify });
    limitConnecting(this.#agent, longestConnectMs);
    const target =
      endpoint.kind === "unix"
        ? { socketPath: endpoint.path, host: undefined, port: undefined, protocol: "http" as const }
        : {
            socketPath: undefined,
            host: endpoint.host,
            port: endpoint.port,
            protocol: tls === undefined ? ("http" as const) : ("https" as const),
          };
    const dockerOptions = { ...target, agent: this.#agent };
    const docker = withoutDockerHost(() => new Docker(dockerOptions));
    this.#modem = docker.modem as unknown as DockerModem;
    const request = tls === undefined ? requestByHttp : requestByHttps;
    this.#modem.buildRequest = (options, { hijack, sending }, data, callback) => {
      if (sending.isOver) return;
      try {
        sending.request = request(options);
        if (hijack) acceptUpgrade(sending.request, callback);
        send(sending.request, data, callback);
      } catch (error) {
        callback(error as Error, null);
      }
    };
  }

  /**
   * The head of the answer, or the raw connection for a hijack that the engine accepted. Rejects with Node's
   * errors, and at once when `signal` aborts (with anything; the caller knows the reason).
   */
  async dial(request: ModemRequest, signal: AbortSignal): Promise<IncomingMessage | Socket> {
    return new Promise((resolve, reject) => {
      const sending: Sending = { request: undefined, isOver: false };
      const link = linkAbort(signal, () => {
        sending.isOver = true;
        sending.request?.destroy();
        reject(new Error("aborted"));
      });
      this.#modem.dial(dialOptions(request, sending), (error, result) => {
        if (sending.isOver) {
          result?.on("error", () => undefined).destroy();
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
    this.#agent.destroy();
  }
}

/** The kernel alone would try for two minutes. */
export function limitConnecting(agent: HttpAgent, connectMs: number): void {
  const create = agent.createConnection.bind(agent);
  agent.createConnection = (...given) => {
    const socket = create(...given);
    if (socket instanceof Socket && socket.connecting) {
      const timer = setTimeout(() => {
        socket.destroy(Object.assign(new Error("connection not made in time"), { code: connectTimeoutCode }));
      }, connectMs);
      timer.unref();
      for (const event of ["connect", "close"]) socket.once(event, () => clearTimeout(timer));
    }
    return socket;
  };
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

/** Calls `callback` again for an error behind the head of the answer, which its reader sees, too. */
function send(request: ClientRequest, data: Body, callback: Callback): void {
  request.on("response", (response) => callback(null, response));
  request.on("error", (error) => callback(error, null));
  if (data === undefined || typeof data === "string" || Buffer.isBuffer(data)) {
    request.end(data);
    return;
  }
  data.on("error", (error) => request.destroy(error));
  data.pipe(request);
}

function acceptUpgrade(request: ClientRequest, callback: Callback): void {
  request.on("upgrade", (_response, socket: Socket, head) => {
    if (head.length > 0) socket.unshift(head);
    callback(null, socket);
  });
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
