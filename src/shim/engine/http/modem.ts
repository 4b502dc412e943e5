/**
 * The connection to the engine's HTTP API: dockerode's docker-modem, which knows sockets, TLS and hijacked
 * connections. Other users of dockerode call its objects (`docker.getContainer(id).inspect()`). They cannot
 * be used here, because they
 *
 * - buffer answers without limit: labels and environments of tenants have any size;
 * - never settle when an answer is cut short;
 * - insert an id or image name into the path unchecked, so that `..` reaches another object.
 *
 * So only `dial` is used, with every status accepted; client.ts has limits, deadlines and errors.
 */
import Docker from "dockerode";
import { Agent as HttpAgent, type IncomingMessage } from "node:http";
import { Agent as HttpsAgent } from "node:https";
import { Socket } from "node:net";
import type { Readable } from "node:stream";
import { inspect } from "node:util";
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
  readonly isStream: true;
  readonly statusCodes: Readonly<Record<number, true>>;
  readonly abortSignal: AbortSignal;
}

/** The part that this file uses; dockerode declares it as `any`. */
interface DockerModem {
  dial(
    options: DialOptions,
    callback: (error: Error | null, result: IncomingMessage | Socket | null) => void,
  ): void;
}

const everyStatus = new Proxy<Record<number, true>>({}, { get: () => true });

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
    hideFromInspection(this.#agent, "[agent]");
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
    this.#modem = docker.modem as DockerModem;
  }

  /**
   * The head of the answer, or the raw connection for a hijack that the engine accepted. Rejects with Node's
   * errors, and at once when `signal` aborts (with anything; the caller knows the reason).
   */
  async dial(request: ModemRequest, signal: AbortSignal): Promise<IncomingMessage | Socket> {
    return new Promise((resolve, reject) => {
      const link = linkAbort(signal, () => reject(new Error("aborted")));
      this.#modem.dial(dialOptions(request, signal), (error, result) => {
        link[Symbol.dispose]();
        if (error !== null || result === null) {
          reject(error ?? new Error("no answer"));
        } else if (signal.aborted) {
          result.on("error", () => undefined);
          result.destroy();
        } else {
          resolve(result);
        }
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

function dialOptions(request: ModemRequest, signal: AbortSignal): DialOptions {
  const headers = { ...request.headers };
  hideFromInspection(headers, "[headers]");
  return {
    path: request.path,
    method: request.method,
    headers,
    // docker-modem sends `options` itself as the body when there is no `_body`, and cuts off the last
    // character of a path with a question mark when `options` is empty.
    options: { _query: {}, _body: request.json ?? {} },
    file: request.tar,
    hijack: request.hijack ?? false,
    isStream: true,
    statusCodes: everyStatus,
    abortSignal: signal,
  };
}

/**
 * docker-modem runs `util.inspect` over the options of every request, to any depth and with hidden fields,
 * also when its debug log is off: for an agent with its sockets that takes a hundred times as long as the
 * request. When the log is on (DEBUG=modem), it would show credentials in headers.
 */
function hideFromInspection(object: object, replacement: string): void {
  Object.defineProperty(object, inspect.custom, { value: () => replacement, enumerable: false });
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
