/** A proxy between a shim and the engine that injects faults into requests and answers. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { EngineProxy, type ProxiedRequest, proxiedRequest } from "./engine-proxy.js";

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
  readonly fault: Fault;
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

/** Answers some requests in the place of the engine. */
export interface StandIn {
  readonly socket: string;
  readonly takes: (request: ProxiedRequest) => boolean;
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

export class FaultProxy extends EngineProxy {
  readonly #rules = new Set<ActiveRule>();
  readonly #open = new Set<OpenRequest>();
  #requests: ProxiedRequest[] = [];
  #standIn: StandIn | undefined;

  static async listen(socket: string): Promise<FaultProxy> {
    const proxy = new FaultProxy(socket);
    await proxy.accept();
    return proxy;
  }

  /** Sends what `standIn` takes to its socket, and not to the engine. */
  use(standIn: StandIn): void {
    this.#standIn = standIn;
  }

  protected override socketFor(incoming: IncomingMessage): string {
    const standIn = this.#standIn;
    return standIn?.takes(proxiedRequest(incoming)) === true ? standIn.socket : super.socketFor(incoming);
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

  /** Requests that have no whole answer yet, without the event stream; with the time since when, in ms. */
  get openRequests(): readonly OpenRequest[] {
    return [...this.#open].filter(({ path }) => !path.startsWith("/events"));
  }

  /** All requests since the last `forget`. */
  get requests(): readonly ProxiedRequest[] {
    return this.#requests;
  }

  forget(): void {
    this.#requests = [];
  }

  protected override onRequest(incoming: IncomingMessage, outgoing: ServerResponse): void {
    const { request, fault } = this.#arrive(incoming, (gone) => outgoing.on("close", gone));
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
      case "error":
        incoming.resume();
        outgoing.writeHead(500, { "Content-Type": "application/json" });
        outgoing.end(JSON.stringify({ message: injectedMessage }));
        return;
      case "delay":
        setTimeout(() => this.forward(incoming, outgoing), delayMs).unref();
        return;
      case "withhold":
        this.forward(incoming, outgoing, (answer) => answer.resume());
        return;
      case "lose":
        this.forward(incoming, outgoing, (answer) => {
          if (isEndless(request)) broken();
          else answer.on("end", broken).resume();
        });
        return;
      case "cut":
        this.forward(incoming, outgoing, (answer) => {
          cutAnswer(answer, outgoing, broken);
        });
        return;
      case "garble":
        this.forward(incoming, outgoing, (answer) => {
          answer.resume();
          outgoing.writeHead(answer.statusCode ?? 502, { "Content-Type": "application/json" });
          outgoing.end(garbage);
        });
        return;
      case undefined:
        this.forward(incoming, outgoing);
    }
  }

  protected override onUpgrade(incoming: IncomingMessage, client: Socket, head: Buffer): void {
    const { fault } = this.#arrive(incoming, (gone) => client.on("close", gone));
    client.on("error", () => client.destroy());
    // Half open otherwise.
    client.on("end", () => client.destroy());
    const pass = (): void => {
      this.dialRaw(incoming, client, head).pipe(client);
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
        this.dialRaw(incoming, client, head, { endsClient: false }).resume();
        return;
      case "lose":
        this.dialRaw(incoming, client, head).once("data", () => client.destroy());
        return;
      case "cut":
      case "garble":
        passHeadOf(this.dialRaw(incoming, client, head), client, (payload) => {
          if (fault === "garble") client.end(garbage);
          else client.write(payload.subarray(0, Math.ceil(payload.length / 2)), () => client.destroy());
        });
        return;
      case undefined:
        pass();
    }
  }

  #arrive(
    incoming: IncomingMessage,
    onGone: (gone: () => void) => void,
  ): { readonly request: ProxiedRequest; readonly fault: Fault | undefined } {
    const request = proxiedRequest(incoming);
    this.#requests.push(request);
    const open = { ...request, sinceMs: performance.now() };
    this.#open.add(open);
    onGone(() => this.#open.delete(open));
    return { request, fault: this.#faultFor(request) };
  }

  #faultFor(request: ProxiedRequest): Fault | undefined {
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
