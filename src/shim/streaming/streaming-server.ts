/** The HTTP server of exec, attach and port-forward: makes URLs, and opens their sessions. */
import {
  createServer as createHttpServer,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from "node:http";
import { createServer as createHttpsServer, type Server as HttpsServer } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { SecureContextOptions } from "node:tls";
import { stopWithin } from "../../lib/abort.js";
import { messageOf, ShimError } from "../../lib/errors.js";
import type { Logger } from "../../lib/log.js";
import type { StreamingServer, StreamingSession } from "../ports/streaming.js";
import * as requests from "./http-request.js";
import { OpenConnections } from "./open-connections.js";
import { openSession, type OpenedSession } from "./open-session.js";
import type { TlsMaterial } from "./tls-files.js";
import { TokenTable, type TokenTableOptions } from "./token-table.js";
import { WebSocketUpgrades } from "./websocket/upgrade.js";

export interface StreamingServerOptions {
  /** An IP address, and a port or 0 for one that the system chooses. */
  readonly bindAddress: { readonly host: string; readonly port: number };
  /** Without it plain HTTP. `renewed` returns new files, or undefined when they are unchanged. */
  readonly tls?: (TlsMaterial & { readonly renewed?: () => Promise<TlsMaterial | undefined> }) | undefined;
  /** 0: never. */
  readonly idleTimeoutMs: number;
  readonly log: Logger;
  /** Limits that only tests change. */
  readonly headTimeoutMs?: number;
  readonly maxConnections?: number;
  readonly streamCreationTimeoutMs?: number;
  readonly tokens?: TokenTableOptions;
}

/** How long a client may take to send its request. */
const headTimeoutMs = 10_000;
const streamCreationTimeoutMs = 30_000;
const maxHeadBytes = 16 * 1024;
/** How long sessions may take to clean up after a stop. */
const cleanUpMs = 5_000;

/** Listens when it returns. Throws `unavailable` when it cannot bind, `invalid` for invalid TLS files. */
export async function startStreamingServer(options: StreamingServerOptions): Promise<RunningStreamingServer> {
  const server = new RunningStreamingServer(options);
  await server.listen();
  return server;
}

export class RunningStreamingServer implements StreamingServer {
  readonly #options: StreamingServerOptions;
  readonly #http: Server | HttpsServer;
  readonly #webSockets = new WebSocketUpgrades();
  readonly #tokens: TokenTable<StreamingSession>;
  readonly #connections: OpenConnections;
  #isRenewing = false;
  #renewalFails = false;
  readonly #sessions = new Set<Promise<void>>();
  /** Ends execs and attaches. */
  readonly #endCommands = new AbortController();
  /** Ends port-forwards at once: they do not end by themselves. */
  readonly #endForwards = new AbortController();
  #urlBase = "";
  #closed: Promise<void> | undefined;

  constructor(options: StreamingServerOptions) {
    this.#options = options;
    this.#tokens = new TokenTable(options.tokens);
    this.#connections = new OpenConnections(options.log, options.maxConnections);
    this.#http = createServer(options);
    this.#http.on("connection", (socket: Socket) => {
      this.#connections.accept(socket);
    });
    this.#http.on("request", (request: IncomingMessage, response: ServerResponse) => {
      this.#answer(request, response);
    });
    this.#http.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Buffer) => {
      this.#upgrade(request, socket, head);
    });
  }

  /** The beginning of the URLs: `http://127.0.0.1:41234`. */
  get urlBase(): string {
    return this.#urlBase;
  }

  /** Open sessions. */
  get running(): number {
    return this.#sessions.size;
  }

  /** Sessions that wait for their client. */
  get offers(): number {
    return this.#tokens.size;
  }

  /** Connections of clients, with or without a session. */
  get connections(): number {
    return this.#connections.size;
  }

  async listen(): Promise<void> {
    const { bindAddress, tls, log } = this.#options;
    const scheme = tls === undefined ? "http" : "https";
    await new Promise<void>((resolve, reject) => {
      this.#http.once("error", (error) => {
        const where = requests.urlBase(bindAddress, scheme);
        const message = `listen on ${where} for streaming: ${error.message}`;
        reject(new ShimError("unavailable", message, {}, { cause: error }));
      });
      this.#http.listen({ host: bindAddress.host, port: bindAddress.port }, resolve);
    });
    this.#http.removeAllListeners("error");
    this.#http.on("error", (error) =>
      log.error({ err: error.message }, "the streaming server cannot accept connections"),
    );
    const { port } = this.#http.address() as AddressInfo;
    this.#urlBase = requests.urlBase({ host: bindAddress.host, port }, scheme);
  }

  offer(session: StreamingSession): string {
    if (this.#closed !== undefined) throw new ShimError("unavailable", "dockershim is stopping");
    // This is done before the client, which does not have the URL yet, connects.
    void this.#renewCertificate();
    return `${this.#urlBase}/${requests.pathOfKind[session.kind]}/${this.#tokens.add(session)}`;
  }

  /**
   * Opens no more sessions, ends port-forwards, waits up to `timeoutMs` for execs and attaches, and ends the
   * remaining ones as `unavailable`, which their clients receive. Then closes all connections. Never fails,
   * and may be called again with a shorter limit.
   */
  async stop(timeoutMs: number): Promise<void> {
    this.#closed ??= new Promise((resolve) => this.#http.close(() => resolve()));
    this.#tokens.clear();
    const stopping = new ShimError("unavailable", "dockershim is stopping");
    this.#endForwards.abort(stopping);
    const ended = async (): Promise<void> => {
      while (this.#sessions.size > 0) await Promise.all(this.#sessions);
    };
    try {
      await stopWithin(timeoutMs, ended());
    } catch {
      this.#endCommands.abort(stopping);
      await stopWithin(cleanUpMs, ended()).catch(() => {
        this.#options.log.warn(
          { sessions: this.#sessions.size },
          "closing the streaming server with open sessions",
        );
      });
    }
    await this.#connections.destroyAll();
    await this.#closed;
  }

  /** Never rejects. An error of new files is reported once; the old ones are used until then. */
  async #renewCertificate(): Promise<void> {
    const { tls, log } = this.#options;
    if (tls?.renewed === undefined || this.#isRenewing || !("setSecureContext" in this.#http)) return;
    this.#isRenewing = true;
    try {
      const renewed = await tls.renewed();
      if (renewed === undefined) return;
      this.#http.setSecureContext(secureContextOf(renewed));
      this.#renewalFails = false;
      log.info("the streaming certificate was renewed");
    } catch (error) {
      if (!this.#renewalFails) log.error({ err: messageOf(error) }, "cannot renew the streaming certificate");
      this.#renewalFails = true;
    } finally {
      this.#isRenewing = false;
    }
  }

  /** Answers a request without an upgrade. */
  #answer(request: IncomingMessage, response: ServerResponse): void {
    const refusal = this.#take(request);
    const { status, message, headers } = "status" in refusal ? refusal : requests.notAnUpgrade;
    const body = `${message}\n`;
    response.writeHead(status, { ...requests.refusalHeaders(body), ...headers }).end(body);
    // An unconsumed body must not keep the connection open.
    response.once("finish", () => request.socket.destroy());
  }

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    socket.on("error", () => undefined); // "close" follows.
    const taken = this.#take(request);
    try {
      const refusal = "status" in taken ? taken : this.#open(taken, { request, socket, head });
      if (refusal !== undefined) requests.refuseUpgrade(socket, refusal);
    } catch (error) {
      this.#options.log.error({ err: messageOf(error) }, "cannot open a streaming session");
      socket.destroy();
    }
  }

  /** The session of the request's token, which is valid once. */
  #take(request: IncomingMessage): StreamingSession | requests.Refusal {
    if (!requests.isServedMethod(request)) return requests.methodNotAllowed;
    const target = requests.parseTarget(request.url);
    const session = target && this.#tokens.take(target.token);
    return session === undefined || session.kind !== target?.kind ? requests.notFound : session;
  }

  #open(
    session: StreamingSession,
    upgrade: { readonly request: IncomingMessage; readonly socket: Duplex; readonly head: Buffer },
  ): requests.Refusal | undefined {
    return openSession(session, {
      ...upgrade,
      webSockets: this.#webSockets,
      idleTimeoutMs: this.#options.idleTimeoutMs,
      streamCreationTimeoutMs: this.#options.streamCreationTimeoutMs ?? streamCreationTimeoutMs,
      stop: (session.kind === "portForward" ? this.#endForwards : this.#endCommands).signal,
      opened: (opened) => {
        this.#connections.hasSession(upgrade.request.socket);
        this.#run(session, opened);
      },
    });
  }

  #run(session: StreamingSession, { protocol, ended }: OpenedSession): void {
    const { log } = this.#options;
    const startMs = performance.now();
    const { kind } = session;
    const subject =
      kind === "portForward" ? { sandboxId: session.sandboxId } : { containerId: session.containerId };
    log.debug({ kind, ...subject, protocol }, "streaming session opened");
    const running = ended
      .catch((error: unknown) => ShimError.from(error))
      .then((failure) => {
        this.#sessions.delete(running);
        const ms = Math.round(performance.now() - startMs);
        logEnd(log, { kind, ...subject, protocol, ms }, failure);
      });
    this.#sessions.add(running);
  }
}

function createServer({
  tls,
  headTimeoutMs: timeoutMs = headTimeoutMs,
}: StreamingServerOptions): Server | HttpsServer {
  const limits = {
    headersTimeout: timeoutMs,
    requestTimeout: timeoutMs,
    // Each check wakes the process.
    connectionsCheckingInterval: Math.ceil(timeoutMs / 2),
    maxHeaderSize: maxHeadBytes,
    keepAliveTimeout: 1,
  };
  if (tls === undefined) return createHttpServer(limits);
  try {
    return createHttpsServer({ ...limits, ...secureContextOf(tls), handshakeTimeout: timeoutMs });
  } catch (error) {
    const message = `read the certificate and the key for streaming: ${messageOf(error)}`;
    throw new ShimError("invalid", message, {}, { cause: error });
  }
}

function secureContextOf({ cert, key }: TlsMaterial): SecureContextOptions {
  return { cert, key, minVersion: "TLSv1.2" };
}

function logEnd(log: Logger, subject: Record<string, unknown>, failure: ShimError | undefined): void {
  // Most sessions end when their client disconnects.
  if (failure === undefined || failure.kind === "cancelled") {
    log.info(subject, "streaming session ended");
    return;
  }
  const fields = { ...failure.fields, ...subject, err: failure.message };
  if (failure.kind !== "internal") {
    log.warn(fields, "streaming session failed");
    return;
  }
  const { stack } = failure.cause instanceof Error ? failure.cause : failure;
  log.error({ ...fields, stack }, "streaming session failed by a bug of dockershim");
}
