/** A gRPC server on one unix socket: the CRI's four services, or what cAdvisor asks. */
import {
  Server as Http2GrpcServer,
  ServerCredentials,
  ServerInterceptingCall,
  type ServerInterceptor,
} from "@grpc/grpc-js";
import type { Http2Server, Http2Session } from "node:http2";
import { createServer, type Server as NetServer, type Socket } from "node:net";
import { stopWithin } from "../../lib/abort.js";
import type { CallUnderWay } from "../../lib/call.js";
import { ShimError } from "../../lib/errors.js";
import type { Logger } from "../../lib/log.js";
import { largestMessageBytes, noMessage, registerMethod, secondMessage } from "./dispatch.js";
import type { Rpcs } from "./handlers.js";
import { Instrument, type InstrumentOptions } from "./instrument.js";
import type { CriApi } from "./codec/cri-api.js";
import { acceptConnection } from "./authority/authority-rewriter.js";
import { guardRequests } from "./guards/guard-requests.js";
import { GuardedConnection } from "./guards/guarded-connection.js";
import { formatEndpoint, type Endpoint } from "./listen-endpoint.js";
import { activatedDescriptor, listenOnDescriptor, type Environment } from "../../lib/linux/systemd.js";
import { type BindOptions, bindUnixSocket } from "../../lib/unix-socket.js";

export interface GrpcServerOptions extends InstrumentOptions, BindOptions {
  readonly endpoint: Endpoint;
  /** Where `fd://` finds what systemd passed. */
  readonly environment?: Environment;
  readonly api: Pick<CriApi, "methods">;
  readonly rpcs: Rpcs;
  /** Memory of all requests whose message is not complete. */
  readonly unfinishedBytes?: number;
  /** How often a silent client is asked whether it is there, and its time to answer. A minute. */
  readonly keepaliveMs?: number;
}

export interface GrpcServer {
  /** As the flags write it. */
  readonly endpoint: string;
  /** Calls without an answer, the oldest first; without streams, which stay open. */
  underWay(): readonly CallUnderWay[];
  /**
   * Takes no more calls, ends server streams, and waits up to `timeoutMs` for the other calls. Those that
   * remain are aborted as `unavailable` and have a moment to clean up. Then every connection is closed and
   * the socket file is gone. Never fails, and may be called again with a shorter limit.
   */
  drain(timeoutMs: number): Promise<void>;
  /** `drain` with a limit of 0. */
  close(): Promise<void>;
}

/** Calls of one connection at a time; clients wait with more. */
const largestConcurrency = 1000;
/** Kubelets have three, each crictl has one. */
const largestConnectionCount = 500;

/** How long aborted handlers may take to end. */
const cleanUpMs = 2000;

/** Listens on `endpoint`; the errors are those of `bindUnixSocket` and `activatedDescriptor`. */
export async function startGrpcServer(options: GrpcServerOptions): Promise<GrpcServer> {
  const running = new RunningServer(options);
  await running.listen(options);
  return running;
}

class RunningServer implements GrpcServer {
  readonly endpoint: string;
  readonly #log: Logger;
  readonly #instrument: Instrument;
  readonly #grpc: Http2GrpcServer;
  readonly #listener: NetServer;
  readonly #sockets = new Set<Socket>();
  /** Connections of which no request was taken, each with its end. */
  readonly #openings = new Map<Socket, () => void>();
  readonly #sessions = new Set<Http2Session>();
  #unlink: () => Promise<void> = () => Promise.resolve();
  #drained: Promise<unknown> | undefined;
  #unlinked: Promise<void> = Promise.resolve();

  constructor(options: GrpcServerOptions) {
    const { endpoint, api, rpcs, log, unfinishedBytes, keepaliveMs = 60_000 } = options;
    this.endpoint = formatEndpoint(endpoint);
    this.#log = log;
    this.#instrument = new Instrument(options);
    this.#grpc = new Http2GrpcServer({
      "grpc.max_receive_message_length": largestMessageBytes,
      "grpc.max_send_message_length": largestMessageBytes,
      "grpc.max_concurrent_streams": largestConcurrency,
      // For some clients that do not read, Node neither reads nor writes any more, nor notices their end.
      "grpc.keepalive_time_ms": keepaliveMs,
      "grpc.keepalive_timeout_ms": keepaliveMs,
      "grpc.enable_channelz": 0,
      interceptors: [requireOneMessage],
    });
    for (const method of api.methods)
      registerMethod(this.#grpc, method, { rpcs, instrument: this.#instrument, log });
    const injector = this.#grpc.createConnectionInjector(ServerCredentials.createInsecure());
    for (const server of http2ServersOf(this.#grpc)) {
      guardRequests(server, unfinishedBytes);
      server.on("session", (session) => {
        this.#sessions.add(session);
        session.once("close", () => this.#sessions.delete(session));
      });
    }
    this.#listener = createServer((socket) => {
      this.#sockets.add(socket);
      socket.once("close", () => {
        this.#sockets.delete(socket);
        this.#openings.delete(socket);
      });
      const end = acceptConnection(socket, {
        log,
        handOver: (opening, rewrite) => {
          this.#openings.delete(socket);
          // A client that does not read has as much time as a client that does not answer a PING.
          const connection = new GuardedConnection(socket, opening, { rewrite, stalledMs: 2 * keepaliveMs });
          injector.injectConnection(connection);
        },
      });
      this.#openings.set(socket, end);
    });
    // One more is closed at once.
    this.#listener.maxConnections = largestConnectionCount;
  }

  underWay(): readonly CallUnderWay[] {
    return this.#instrument.underWay();
  }

  async listen({ endpoint, mode, isFree, environment = {} }: GrpcServerOptions): Promise<void> {
    if (endpoint.kind === "fd") {
      const descriptor =
        "descriptor" in endpoint
          ? endpoint.descriptor
          : activatedDescriptor(environment, process.pid, endpoint.name);
      await listenOnDescriptor(this.#listener, descriptor);
    } else {
      const bound = await bindUnixSocket(this.#listener, endpoint.path, { mode, isFree });
      this.#unlink = () => bound.unlink();
    }
    this.#listener.on("error", (error) => {
      this.#log.error({ err: error.message }, "the socket cannot accept connections");
    });
  }

  async drain(timeoutMs: number): Promise<void> {
    this.#drained ??= this.#stopGracefully();
    try {
      await stopWithin(timeoutMs, this.#drained);
    } catch {
      const stopping = new ShimError("unavailable", "dockershim is stopping");
      this.#instrument.abort("all", stopping);
      await stopWithin(cleanUpMs, this.#instrument.idle()).catch(() => {
        this.#log.warn("closing the server with calls in progress");
      });
    }
    for (const socket of this.#sockets) socket.destroy();
    this.#grpc.forceShutdown();
    // However little patience there was: the file must not outlive the server.
    await stopWithin(cleanUpMs, this.#unlinked).catch(() => {
      this.#log.warn({ endpoint: this.endpoint }, "the socket file cannot be removed in time");
    });
  }

  close(): Promise<void> {
    return this.drain(0);
  }

  async #stopGracefully(): Promise<void> {
    this.#listener.close();
    for (const end of this.#openings.values()) end();
    this.#openings.clear();
    this.#unlinked = this.#unlink();
    this.#instrument.abort("streams", new ShimError("unavailable", "dockershim is stopping"));
    // Calls are not waited for longer because the file system of the socket hangs.
    await Promise.all([
      this.#instrument.idle(),
      new Promise<void>((resolve) => {
        this.#grpc.tryShutdown(() => {
          resolve();
        });
      }),
    ]);
    // tryShutdown() does not wait for sessions with Node.js 24: http2's server closes them before grpc-js
    // does, and an answer that is not written yet would be lost with its socket.
    const closed = [...this.#sessions].map((each) => new Promise((done) => each.once("close", done)));
    await Promise.all(closed);
  }
}

/** A call without or with two messages: grpc-js would answer UNIMPLEMENTED, a missing feature to kubelets. */
const requireOneMessage: ServerInterceptor = (_method, nextCall) =>
  new ServerInterceptingCall(nextCall, {
    start: (next) => {
      let received = false;
      next({
        onReceiveMessage: (message, forward) => {
          if (received) {
            nextCall.sendStatus(secondMessage);
            return;
          }
          received = true;
          forward(message);
        },
        onReceiveHalfClose: (forward) => {
          if (received) forward();
          else nextCall.sendStatus(noMessage);
        },
      });
    },
  });

/** Not public behind an injector; the version of grpc-js is pinned, and a test notices. */
function http2ServersOf(server: Http2GrpcServer): Iterable<Http2Server> {
  return (server["http2Servers"] as ReadonlyMap<Http2Server, unknown>).keys();
}
