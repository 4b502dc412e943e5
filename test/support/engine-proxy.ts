/** A unix socket between a shim and the engine, which records every request, can hold one, and injects faults. */
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from "node:http";
import { once } from "node:events";
import { rename } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { dockerSocket } from "./docker.js";

export interface ProxiedRequest {
  readonly method: string;
  /** Without the version prefix. */
  readonly path: string;
  /** What has been passed on of it so far. */
  readonly body: Buffer[];
}

export interface Hold {
  /** Resolves when a request has been held. */
  readonly held: Promise<void>;
  /** Lets it go on; without that it is held for ever. */
  release(): void;
}

/** What happens to a request, or to its answer. */
export type Fault =
  /** It reaches the engine late. */
  | "delay"
  /** The engine does not get it, and there is no answer. */
  | "stall"
  /** The engine does it, and its answer never comes. */
  | "withhold"
  /** The connection is closed before the engine hears of it. */
  | "close"
  /** The engine does it; the connection is closed before the first byte of the answer. */
  | "lose"
  /**
   * The engine does it; the connection is closed in the middle of the answer, of a stream after its first
   * piece.
   */
  | "cut"
  /** The engine does it; the answer has the right status and is no JSON. */
  | "garble"
  /** Answered with HTTP status 500, without the engine. */
  | "error";

export interface FaultRule {
  readonly matches: (request: ProxiedRequest) => boolean;
  readonly fault: Fault | "hold before" | "hold after";
  /** Number of the matching request, from 1; undefined: all matching requests. */
  readonly nth?: number;
}

export interface Injection {
  /** Resolves when the fault has struck for the first time. */
  readonly struck: Promise<void>;
  /** How often it has. */
  readonly strikes: number;
  /** No further request is struck; those that are stalled stay so. */
  remove(): void;
}

interface ActiveRule {
  readonly rule: FaultRule;
  readonly spring: () => void;
  seen: number;
  strikes: number;
}

interface OpenRequest extends ProxiedRequest {
  readonly sinceMs: number;
}

const delayMs = 150;
export const garbage = '{"Id":"\u0000 not JSON';
export const injectedMessage = "fault of the test";

/**
 * A request body or answer is passed on as it comes; exec's hijacked connections are passed on as raw bytes.
 */
export class EngineProxy implements AsyncDisposable {
  readonly endpoint: string;
  readonly #sockets = new Set<Duplex>();
  readonly #rules = new Set<ActiveRule>();
  readonly #open = new Set<OpenRequest>();
  #requests: ProxiedRequest[] = [];
  #hold = {
    spring: (): void => undefined,
    released: Promise.resolve(),
    rule: undefined as Injection | undefined,
  };
  #server = createServer();

  private constructor(readonly socket: string) {
    this.endpoint = `unix://${socket}`;
  }

  /** Listens at once; the engine need not be there yet. */
  static async listen(socket: string): Promise<EngineProxy> {
    const proxy = new EngineProxy(socket);
    await proxy.#accept();
    return proxy;
  }

  /** All requests since the last `forget`, in order of arrival. */
  get requests(): readonly ProxiedRequest[] {
    return this.#requests;
  }

  /** `METHOD path`, with names and ids as `NAME` and `ID`, without pings. */
  get calls(): readonly string[] {
    return this.#requests.filter(({ path }) => path !== "/_ping").map(describeRequest);
  }

  forget(): void {
    this.#requests = [];
  }

  /** Requests that have no whole answer yet, without the event stream; with the time since when, in ms. */
  get openRequests(): readonly OpenRequest[] {
    return [...this.#open].filter(({ path }) => !path.startsWith("/events"));
  }

  /** Until it is removed, for matching requests that come from now on. The rule that was added first wins. */
  inject(rule: FaultRule): Injection {
    let spring!: () => void;
    const struck = new Promise<void>((resolve) => (spring = resolve));
    const active: ActiveRule = { rule, spring, seen: 0, strikes: 0 };
    this.#rules.add(active);
    return {
      struck,
      get strikes() {
        return active.strikes;
      },
      remove: () => {
        this.#rules.delete(active);
      },
    };
  }

  /**
   * The next request that matches is held: before the engine sees it, or after the engine has answered and before the shim
   * knows. One at a time.
   */
  holdNext(moment: "before" | "after", matches: (request: ProxiedRequest) => boolean): Hold {
    this.#hold.rule?.remove();
    let [spring, release] = [(): void => undefined, (): void => undefined];
    const held = new Promise<void>((resolve) => (spring = resolve));
    const released = new Promise<void>((resolve) => (release = resolve));
    this.#hold = { spring, released, rule: this.inject({ matches, fault: `hold ${moment}`, nth: 1 }) };
    return { held, release };
  }

  async #accept(): Promise<void> {
    const server = createServer();
    server.on("request", (incoming, outgoing) => {
      this.#onRequest(incoming, outgoing);
    });
    server.on("upgrade", (incoming: IncomingMessage, client: Socket, head: Buffer) => {
      this.#onUpgrade(incoming, client, head);
    });
    server.on("connection", (client) => {
      this.#own(client);
    });
    // Renamed, so that the end of the server does not remove the file: connections are then refused, as by an
    // engine that was killed.
    const listening = `${this.socket}.listening`;
    server.listen(listening);
    await once(server, "listening");
    await rename(listening, this.socket);
    this.#server = server;
  }

  /** Cuts every connection and takes no new ones: "connection refused". */
  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#server.listening) return;
    this.cutConnections();
    this.#server.close();
    await once(this.#server, "close");
  }

  /** Cuts every connection. Held requests and answers never arrive. */
  cutConnections(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  #onRequest(incoming: IncomingMessage, outgoing: ServerResponse): void {
    const { request, fault } = this.#arrive(incoming, (gone) => outgoing.on("close", gone));
    const { spring, released } = this.#hold;
    const broken = (): void => {
      incoming.socket.destroy();
    };
    switch (fault) {
      case "stall":
        incoming.resume();
        return;
      case "close":
        broken();
        return;
      case "hold before":
        spring();
        void released.then(() => this.#forward(incoming, outgoing, request));
        return;
      case "hold after":
        this.#forward(incoming, outgoing, request, (answer) => {
          spring();
          void released.then(() => passAnswer(answer, outgoing));
        });
        return;
      case "error":
        incoming.resume();
        outgoing.writeHead(500, { "Content-Type": "application/json" });
        outgoing.end(JSON.stringify({ message: injectedMessage }));
        return;
      case "delay":
        setTimeout(() => this.#forward(incoming, outgoing, request), delayMs).unref();
        return;
      case "withhold":
        this.#forward(incoming, outgoing, request, (answer) => answer.resume());
        return;
      case "lose":
        this.#forward(incoming, outgoing, request, (answer) => {
          if (isEndless(request)) broken();
          else answer.on("end", broken).resume();
        });
        return;
      case "cut":
        this.#forward(incoming, outgoing, request, (answer) => {
          cutAnswer(answer, outgoing, broken);
        });
        return;
      case "garble":
        this.#forward(incoming, outgoing, request, (answer) => {
          answer.resume();
          outgoing.writeHead(answer.statusCode ?? 502, { "Content-Type": "application/json" });
          outgoing.end(garbage);
        });
        return;
      case undefined:
        this.#forward(incoming, outgoing, request);
    }
  }

  #onUpgrade(incoming: IncomingMessage, client: Socket, head: Buffer): void {
    const { fault } = this.#arrive(incoming, (gone) => client.on("close", gone));
    client.on("error", () => client.destroy());
    // Half open otherwise.
    client.on("end", () => client.destroy());
    const pass = (): void => {
      this.#dialRaw(incoming, client, head).pipe(client);
    };
    switch (fault) {
      case "stall":
        client.resume();
        return;
      case "close":
        client.destroy();
        return;
      case "error":
        client.end(
          `HTTP/1.1 500 Fault\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n{"message":"${injectedMessage}"}`,
        );
        return;
      case "delay":
        setTimeout(pass, delayMs).unref();
        return;
      case "withhold":
        this.#dialRaw(incoming, client, head, { endsClient: false }).resume();
        return;
      case "lose":
        this.#dialRaw(incoming, client, head).once("data", () => client.destroy());
        return;
      case "cut":
      case "garble":
        passHeadOf(this.#dialRaw(incoming, client, head), client, (payload) => {
          if (fault === "garble") client.end(garbage);
          else client.write(payload.subarray(0, Math.ceil(payload.length / 2)), () => client.destroy());
        });
        return;
      case "hold before":
      case "hold after":
      case undefined:
        pass();
    }
  }

  #arrive(
    incoming: IncomingMessage,
    onGone: (gone: () => void) => void,
  ): { readonly request: ProxiedRequest; readonly fault: FaultRule["fault"] | undefined } {
    const request = proxiedRequest(incoming);
    this.#requests.push(request);
    const open = { ...request, sinceMs: performance.now() };
    this.#open.add(open);
    onGone(() => this.#open.delete(open));
    return { request, fault: this.#faultFor(request) };
  }

  #faultFor(request: ProxiedRequest): FaultRule["fault"] | undefined {
    for (const active of this.#rules) {
      if (!active.rule.matches(request)) continue;
      active.seen += 1;
      if (active.rule.nth !== undefined && active.rule.nth !== active.seen) continue;
      active.strikes += 1;
      active.spring();
      return active.rule.fault;
    }
    return undefined;
  }
  /**
   * Forwards a request; `onAnswer` may pass the answer back. A connection that breaks on one side is cut on
   * the other.
   */
  #forward(
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    request: ProxiedRequest,
    onAnswer: (answer: IncomingMessage) => void = (answer) => passAnswer(answer, outgoing),
  ): void {
    const { method = "GET", url = "/", headers } = incoming;
    const onward = httpRequest({
      socketPath: dockerSocket,
      method,
      path: url,
      headers,
      agent: false,
    });
    onward.on("response", (answer) => {
      answer.on("error", () => outgoing.destroy());
      onAnswer(answer);
    });
    onward.on("error", () => outgoing.destroy());
    outgoing.on("close", () => onward.destroy());
    incoming.on("data", (chunk: Buffer) => request.body.push(chunk)).pipe(onward);
  }

  /**
   * Sends the begin of a connection on that leaves HTTP; answers the connection to the engine, not yet
   * joined.
   */
  #dialRaw(incoming: IncomingMessage, client: Socket, head: Buffer, { endsClient = true } = {}): Socket {
    const engine = connect(dockerSocket);
    this.#own(engine);
    const lines = [`${incoming.method ?? "GET"} ${incoming.url ?? "/"} HTTP/1.1`];
    for (let at = 0; at < incoming.rawHeaders.length; at += 2) {
      lines.push(`${incoming.rawHeaders[at] ?? ""}: ${incoming.rawHeaders[at + 1] ?? ""}`);
    }
    engine.write(`${lines.join("\r\n")}\r\n\r\n`);
    engine.write(head);
    client.pipe(engine);
    const endClient = (): void => {
      if (endsClient) client.destroy();
    };
    engine.on("error", endClient);
    engine.on("close", endClient);
    client.on("error", () => engine.destroy());
    client.on("close", () => engine.destroy());
    return engine;
  }

  #own(socket: Duplex): void {
    this.#sockets.add(socket);
    socket.on("close", () => this.#sockets.delete(socket));
  }
}

function passAnswer(answer: IncomingMessage, outgoing: ServerResponse): void {
  outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
  outgoing.flushHeaders();
  answer.pipe(outgoing);
}

function proxiedRequest({ method = "GET", url = "/" }: IncomingMessage): ProxiedRequest {
  return { method, path: url.replace(/^\/v\d+\.\d+/, ""), body: [] };
}

/** Answers that come as long as the client listens. */
function isEndless({ path }: ProxiedRequest): boolean {
  return path.startsWith("/events") || path.includes("/logs?");
}

/** Half of the first piece; an answer without a body ends in its status line. */
function cutAnswer(answer: IncomingMessage, outgoing: ServerResponse, broken: () => void): void {
  const status = answer.statusCode ?? 502;
  if (status === 204 || status === 304 || answer.headers["content-length"] === "0") {
    outgoing.socket?.write(`HTTP/1.1 ${status} No`, broken);
    return;
  }
  outgoing.writeHead(status, answer.headers);
  answer.once("data", (chunk: Buffer) => {
    outgoing.write(chunk.subarray(0, Math.ceil(chunk.length / 2)), broken);
  });
}

/**
 * Reads the head of the answer to an upgrade. Calls `next` with the bytes after it, or without when the
 * engine ends.
 */
function passHeadOf(engine: Socket, client: Socket, next: (payload: Buffer) => void): void {
  let received = Buffer.alloc(0);
  let hasHead = false;
  engine.on("data", (chunk: Buffer) => {
    received = Buffer.concat([received, chunk]);
    const end = received.indexOf("\r\n\r\n");
    if (end === -1) return;
    if (!hasHead) client.write(received.subarray(0, end + 4));
    hasHead = true;
    if (received.length > end + 4) {
      engine.removeAllListeners("data").removeAllListeners("end").resume();
      next(received.subarray(end + 4));
    }
  });
  engine.on("end", () => next(Buffer.alloc(0)));
}

/** `METHOD path`, with names and ids as `NAME` and `ID`. */
export function describeRequest({ method, path }: ProxiedRequest): string {
  const shown = path
    .replace(/[0-9a-f]{64}/g, "ID")
    .replace(/name=[^&]*/, "name=NAME")
    .replace(/filters=[^&]*/, "filters=FILTERS")
    .replace(/=true\b/g, "=1");
  return `${method} ${shown}`;
}
