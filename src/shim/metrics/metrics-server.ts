/** The HTTP server of metrics and health: a few plain pages for clients of this host. */
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { isIP, type AddressInfo, type Socket } from "node:net";
import { hostname } from "node:os";
import { withDeadline } from "../../lib/abort.js";
import { messageOf, ShimError } from "../../lib/errors.js";
import { hasCode } from "../../lib/files/file-errors.js";
import type { Logger } from "../../lib/log.js";
import { SingleFlight } from "../../lib/sync/single-flight.js";
import { bindUnixSocket, type BoundSocket } from "../../lib/unix-socket.js";

export type MetricsAddress =
  | { readonly kind: "unix"; readonly path: string }
  /** An IP address; port 0 is one that the system chooses. */
  | { readonly kind: "tcp"; readonly host: string; readonly port: number };

/**
 * By path, as `/metrics`; `*` is one segment of the path, as in `/pods/*`, and is handed over. Equal requests at the
 * same time share one.
 */
export type Pages = Readonly<Record<string, (signal: AbortSignal, segment: string) => Promise<Page>>>;

export interface MetricsServerOptions {
  readonly address: MetricsAddress;
  readonly pages: Pages;
  readonly log: Pick<Logger, "error">;
  /** The node's own name, in place of that of the system. */
  readonly hostname?: string;
  /** Limits that only tests change. */
  readonly headTimeoutMs?: number;
  readonly answerTimeoutMs?: number;
  readonly idleTimeoutMs?: number;
}

/** A client may be as slow as this with its request. */
const headTimeoutMs = 5_000;
/** From the request until the last byte of the answer was taken. */
const answerTimeoutMs = 10_000;
/** A connection without a request: Prometheus comes back every 15 s to a minute, and opens a new one then. */
const idleTimeoutMs = 30_000;
const maxConnections = 64;
const maxHeadBytes = 16 * 1024;

/** A unix socket has mode 0600. A port in use is `conflict`, one that is refused `precondition`. */
export async function startMetricsServer(options: MetricsServerOptions): Promise<MetricsServer> {
  const server = new MetricsServer(options);
  await server.listen();
  return server;
}

export class MetricsServer {
  readonly #http: Server;
  readonly #sockets = new Set<Socket>();
  readonly #flights = new SingleFlight<Page>();
  #bound: BoundSocket | undefined;
  #endpoint = "";

  constructor(private readonly options: MetricsServerOptions) {
    const { headTimeoutMs: headMs = headTimeoutMs, idleTimeoutMs: idleMs = idleTimeoutMs } = options;
    this.#http = createServer({
      headersTimeout: headMs,
      requestTimeout: headMs,
      connectionsCheckingInterval: Math.ceil(headMs / 2),
      maxHeaderSize: maxHeadBytes,
      keepAliveTimeout: idleMs,
    });
    this.#http.maxConnections = maxConnections;
    this.#http.on("connection", (socket: Socket) => {
      this.#sockets.add(socket);
      socket.once("close", () => this.#sockets.delete(socket));
    });
    this.#http.on("request", (request, response) => {
      void this.#answer(request, response);
    });
    // No listener of 'upgrade': then the offer of HTTP/2 (`curl --http2`) is ignored.
  }

  /** `http://127.0.0.1:9090` or `unix:///run/dockershim-metrics.sock`. */
  get endpoint(): string {
    return this.#endpoint;
  }

  get connections(): number {
    return this.#sockets.size;
  }

  async listen(): Promise<void> {
    const { address, log } = this.options;
    if (address.kind === "unix") {
      this.#bound = await bindUnixSocket(this.#http, address.path);
      this.#endpoint = `unix://${address.path}`;
    } else {
      await listenOnPort(this.#http, address);
      const { port } = this.#http.address() as AddressInfo;
      this.#endpoint = urlOf({ host: address.host, port });
    }
    this.#http.on("error", (error) =>
      log.error({ err: error.message }, "metrics server cannot accept connections"),
    );
  }

  /** Ends every connection, and removes the socket file. Never fails. */
  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#http.close(() => resolve()));
    for (const socket of this.#sockets) socket.destroy();
    await this.#bound?.unlink();
    await closed;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const left = new AbortController();
    response.once("close", () => left.abort(new ShimError("cancelled", "the client has left")));
    // Also for a client that does not read: its answer must not stay in memory.
    const { answerTimeoutMs: milliseconds = answerTimeoutMs } = this.options;
    const timer = setTimeout(() => request.socket.destroy(), milliseconds);
    response.once("close", () => clearTimeout(timer));
    try {
      const page = await this.#pageOf(request, left.signal);
      send(request, response, page);
    } catch (error) {
      if (left.signal.aborted) return;
      this.options.log.error(
        { path: pathOf(request), err: messageOf(error) },
        "cannot answer a metrics request",
      );
      send(request, response, pageOf(500, `${messageOf(error)}\n`));
    }
  }

  async #pageOf(request: IncomingMessage, signal: AbortSignal): Promise<Page | Refusal> {
    const { method = "" } = request;
    if (method !== "GET" && method !== "HEAD") {
      const headers = { Allow: "GET, HEAD" };
      return { ...pageOf(405, "only GET and HEAD are answered\n"), headers, closes: true };
    }
    const { pages, hostname: ownName = hostname() } = this.options;
    // Of a socket, too: ssh makes a port of it for the browser of another machine.
    if (!isOwn(request.headers.host, ownName)) {
      const reason = "this is served under an IP address, localhost or the host name of the node\n";
      return { ...pageOf(421, reason), closes: true };
    }
    const path = pathOf(request);
    const found = find(pages, path);
    if (found === undefined) return notFoundPage(Object.keys(pages));
    const { answerTimeoutMs: milliseconds = answerTimeoutMs } = this.options;
    return withDeadline(signal, milliseconds, `answer ${path}`, (limited) =>
      this.#flights.run(path, limited, (shared) => found.answer(shared, found.segment)),
    );
  }
}

function find(
  pages: Pages,
  path: string,
): { readonly answer: Pages[string]; readonly segment: string } | undefined {
  for (const [pattern, answer] of Object.entries(pages)) {
    if (pattern === path && !pattern.includes("*")) return { answer, segment: "" };
    const [start = "", end] = pattern.split("*");
    if (end === undefined || !path.startsWith(start) || !path.endsWith(end)) continue;
    const segment = path.slice(start.length, path.length - end.length);
    if (segment !== "" && !segment.includes("/")) return { answer, segment };
  }
  return undefined;
}

/**
 * Whether `Host` is an IP address, a name without a dot, or the node's own name: no foreign web page has those, and
 * makes them mean this host (DNS rebinding). Browsers always send one.
 */
function isOwn(host = "", ownName: string): boolean {
  const [, address, name] = /^(?:\[([\d.:a-f]+)\]|([^:]*))(?::\d+)?$/i.exec(host) ?? [];
  if (address !== undefined) return isIP(address) !== 0;
  if (name === undefined) return false;
  return /^[\w-]*$/.test(name) || isIP(name) !== 0 || name.toLowerCase() === ownName.toLowerCase();
}

function pathOf({ url = "" }: IncomingMessage): string {
  return url.split("?", 1)[0] ?? "";
}

function send(request: IncomingMessage, response: ServerResponse, page: Page | Refusal): void {
  const { status, contentType, body } = page;
  response.writeHead(status, {
    "Content-Type": contentType,
    "Content-Length": Buffer.byteLength(body),
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    ...page.headers,
    // The body of a request is not read: such a connection ends.
    ...("closes" in page ? { Connection: "close" } : {}),
  });
  response.end(request.method === "HEAD" ? undefined : body);
}

async function listenOnPort(
  server: Server,
  { host, port }: { readonly host: string; readonly port: number },
): Promise<void> {
  try {
    server.listen({ host, port, exclusive: true });
    await once(server, "listening");
  } catch (error) {
    const kind = hasCode(error, "EADDRINUSE") ? "conflict" : "precondition";
    const message = `listen on ${urlOf({ host, port })} for metrics: ${messageOf(error)}`;
    throw new ShimError(kind, message, {}, { cause: error });
  }
}

function urlOf({ host, port }: { readonly host: string; readonly port: number }): string {
  return `http://${host.includes(":") ? `[${host}]` : host}:${port}`;
}

export interface Page {
  readonly status: number;
  readonly contentType: string;
  readonly body: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Ends its connection. */
interface Refusal extends Page {
  readonly closes: true;
}

/** A condition of Status, as the CRI has it. */
export interface Condition {
  readonly type: string;
  readonly status: boolean;
  readonly reason: string;
  readonly message: string;
}

export function pageOf(status: number, body: string): Page {
  return { status, contentType: "text/plain; charset=utf-8", body };
}

function notFoundPage(paths: readonly string[]): Page {
  return pageOf(404, `not found; there are ${paths.join(", ")}\n`);
}

/** Says only that the event loop turns. */
export const healthPage: Page = pageOf(200, "ok\n");

/** 200 when all conditions are met, else 503, in the form of the kubelet's own pages. */
export function readinessPage(conditions: readonly Condition[]): Page {
  const ready = conditions.every(({ status }) => status);
  const lines = conditions.map(({ type, status, reason, message }) =>
    status ? `[+]${type} ok` : `[-]${type} failed: ${reason}: ${oneLine(message)}`,
  );
  return pageOf(ready ? 200 : 503, [...lines, `readyz check ${ready ? "passed" : "failed"}`, ""].join("\n"));
}

function oneLine(text: string): string {
  return text.replaceAll(/\s*[\r\n]+\s*/g, " ");
}
