/** A gRPC server on one unix socket: the CRI's four services, or what cAdvisor asks. */
import { createServer, type Server as NetServer } from "node:net";
import { stopWithin } from "../../lib/abort.js";
import type { CallUnderWay } from "../../lib/call.js";
import { ShimError } from "../../lib/errors.js";
import type { Logger } from "../../lib/log.js";
import { dispatcher } from "./dispatch.js";
import type { Rpcs } from "./handlers.js";
import { Instrument, type InstrumentOptions } from "./instrument.js";
import type { CriApi } from "./codec/cri-api.js";
import { GrpcConnection } from "./http2/connection.js";
import { UnfinishedRequests } from "./http2/unfinished-requests.js";
import { formatEndpoint, type Endpoint } from "./listen-endpoint.js";
import { activatedDescriptor, listenOnDescriptor, type Environment } from "../../lib/linux/systemd.js";
import { type BindOptions, bindUnixSocket } from "../../lib/unix-socket.js";

export interface GrpcServerOptions extends InstrumentOptions, BindOptions {
  readonly endpoint: Endpoint;
  /** Where `fd://` finds what systemd passed. */
  readonly environment?: Environment;
  readonly api: Pick<CriApi, "methods">;
  readonly rpcs: Rpcs;
  /** Memory of all requests whose message is not complete, and of answers that wait for their clients. */
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
  readonly #listener: NetServer;
  /** Each with what resolves when it is closed. */
  readonly #connections = new Map<GrpcConnection, Promise<unknown>>();
  #unlink: () => Promise<void> = () => Promise.resolve();
  #drained: Promise<unknown> | undefined;
  #unlinked: Promise<void> = Promise.resolve();

  constructor(options: GrpcServerOptions) {
    const { endpoint, api, rpcs, log, unfinishedBytes, keepaliveMs = 60_000 } = options;
    this.endpoint = formatEndpoint(endpoint);
    this.#log = log;
    this.#instrument = new Instrument(options);
    const onRequest = dispatcher(api.methods, { rpcs, instrument: this.#instrument, log });
    const unfinished = new UnfinishedRequests(unfinishedBytes);
    this.#listener = createServer((socket) => {
      const connection = new GrpcConnection(socket, { log, keepaliveMs, unfinished, onRequest });
      const closed = new Promise((resolve) => socket.once("close", resolve));
      this.#connections.set(connection, closed);
      void closed.then(() => this.#connections.delete(connection));
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
    for (const connection of this.#connections.keys()) connection.destroy();
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
    this.#unlinked = this.#unlink();
    this.#instrument.abort("streams", new ShimError("unavailable", "dockershim is stopping"));
    // Calls are not waited for longer because the file system of the socket hangs.
    for (const connection of this.#connections.keys()) connection.shutDown();
    await Promise.all([this.#instrument.idle(), ...this.#connections.values()]);
  }
}
