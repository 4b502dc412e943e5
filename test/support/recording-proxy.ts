/** A proxy between a shim and the engine that records every request and can hold one. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { EngineProxy, passAnswer, type ProxiedRequest, proxiedRequest } from "./engine-proxy.js";

export interface RecordedRequest extends ProxiedRequest {
  /** What has been passed on of it so far. */
  readonly body: Buffer[];
}

export interface Hold {
  /** Resolves when a request has been held. */
  readonly held: Promise<void>;
  /** Lets it go on; without that it is held for ever. */
  release(): void;
}

interface Trap {
  readonly matches: (request: RecordedRequest) => boolean;
  readonly moment: "before" | "after";
  readonly spring: () => void;
  readonly released: Promise<void>;
}

interface Arrival {
  readonly recorded: RecordedRequest;
  readonly trap: Trap | undefined;
}

export class RecordingProxy extends EngineProxy {
  #requests: RecordedRequest[] = [];
  #trap: Trap | undefined;

  /** Listens at once; the engine need not be there yet. */
  static async listen(socket: string): Promise<RecordingProxy> {
    const proxy = new RecordingProxy(socket);
    await proxy.accept();
    return proxy;
  }

  /** All requests since the last `forget`, in order of arrival. */
  get requests(): readonly RecordedRequest[] {
    return this.#requests;
  }

  /** `METHOD path`, with names and ids as `NAME` and `ID`, without pings. */
  get calls(): readonly string[] {
    return this.#requests.filter(({ path }) => path !== "/_ping").map(describeRequest);
  }

  forget(): void {
    this.#requests = [];
  }

  /**
   * The next request that matches is held: before the engine sees it, or after the engine has answered and
   * before the shim knows. One at a time.
   */
  holdNext(moment: "before" | "after", matches: (request: RecordedRequest) => boolean): Hold {
    let spring!: () => void;
    let release!: () => void;
    const held = new Promise<void>((resolve) => (spring = resolve));
    const released = new Promise<void>((resolve) => (release = resolve));
    this.#trap = { matches, moment, spring, released };
    return { held, release };
  }

  protected override onRequest(incoming: IncomingMessage, outgoing: ServerResponse): void {
    const { recorded, trap } = this.#record(incoming);
    if (trap?.moment !== "before") {
      this.#pass(incoming, outgoing, { recorded, trap });
      return;
    }
    trap.spring();
    void trap.released.then(() => {
      this.#pass(incoming, outgoing, { recorded, trap: undefined });
    });
  }

  protected override onUpgrade(incoming: IncomingMessage, client: Socket, head: Buffer): void {
    this.#record(incoming);
    this.dialRaw(incoming, client, head).pipe(client);
  }

  /** With a trap, the engine's answer waits for its release. */
  #pass(incoming: IncomingMessage, outgoing: ServerResponse, { recorded, trap }: Arrival): void {
    this.forward(incoming, outgoing, (answer) => {
      if (trap === undefined) {
        passAnswer(answer, outgoing);
        return;
      }
      trap.spring();
      void trap.released.then(() => {
        passAnswer(answer, outgoing);
      });
    });
    incoming.on("data", (chunk: Buffer) => recorded.body.push(chunk));
  }

  #record(incoming: IncomingMessage): Arrival {
    const recorded = { ...proxiedRequest(incoming), body: [] };
    this.#requests.push(recorded);
    const trap = this.#trap;
    if (trap?.matches(recorded) !== true) return { recorded, trap: undefined };
    this.#trap = undefined;
    return { recorded, trap };
  }
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
