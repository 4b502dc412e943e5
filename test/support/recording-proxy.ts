/** Stands between a shim and the engine: writes down every request, and can hold one at a chosen moment. */
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from "node:http";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { dockerSocket } from "./docker.js";

export interface RecordedRequest {
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

/** A request body or answer is passed on as it comes; exec's hijacked connections are passed on as raw bytes. */
export class RecordingProxy implements AsyncDisposable {
  readonly endpoint: string;
  readonly #server = createServer();
  readonly #sockets = new Set<Duplex>();
  #requests: RecordedRequest[] = [];
  #trap: Trap | undefined;

  private constructor(readonly socket: string) {
    this.endpoint = `unix://${socket}`;
    this.#server.on("request", (incoming, outgoing) => {
      this.#pass(incoming, outgoing);
    });
    this.#server.on("upgrade", (incoming: IncomingMessage, client: Socket, head: Buffer) => {
      this.#passRaw(incoming, client, head);
    });
    this.#server.on("connection", (client) => {
      this.#sockets.add(client);
      client.on("close", () => this.#sockets.delete(client));
    });
  }

  /** Listens at once; the engine need not be there yet. */
  static async listen(socket: string): Promise<RecordingProxy> {
    const proxy = new RecordingProxy(socket);
    proxy.#server.listen(socket);
    await once(proxy.#server, "listening");
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
   * The next request that matches is held: before the engine sees it, or after the engine has answered and before the
   * shim knows. One at a time.
   */
  holdNext(moment: "before" | "after", matches: (request: RecordedRequest) => boolean): Hold {
    let spring!: () => void;
    let release!: () => void;
    const held = new Promise<void>((resolve) => (spring = resolve));
    const released = new Promise<void>((resolve) => (release = resolve));
    this.#trap = { matches, moment, spring, released };
    return { held, release };
  }

  /** Cuts every connection: what is held never arrives. */
  cutConnections(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#server.listening) return;
    this.cutConnections();
    this.#server.close();
    await once(this.#server, "close");
  }

  #pass(incoming: IncomingMessage, outgoing: ServerResponse): void {
    const { recorded, trap } = this.#record(incoming);
    if (trap?.moment !== "before") {
      this.#forward(incoming, outgoing, { recorded, trap });
      return;
    }
    trap.spring();
    void trap.released.then(() => {
      this.#forward(incoming, outgoing, { recorded, trap: undefined });
    });
  }

  /** With a trap, the engine's answer waits for its release. */
  #forward(incoming: IncomingMessage, outgoing: ServerResponse, { recorded, trap }: Arrival): void {
    const { method = "GET", url = "/", headers } = incoming;
    const onward = httpRequest({ socketPath: dockerSocket, method, path: url, headers, agent: false });
    onward.on("response", (answer) => {
      const pass = (): void => {
        outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
        outgoing.flushHeaders();
        answer.pipe(outgoing);
      };
      answer.on("error", () => outgoing.destroy());
      if (trap === undefined) {
        pass();
        return;
      }
      trap.spring();
      void trap.released.then(pass);
    });
    onward.on("error", () => outgoing.destroy());
    outgoing.on("close", () => onward.destroy());
    incoming.on("data", (chunk: Buffer) => recorded.body.push(chunk));
    incoming.pipe(onward);
  }

  #passRaw(incoming: IncomingMessage, client: Socket, head: Buffer): void {
    this.#record(incoming);
    const engine = connect(dockerSocket);
    this.#sockets.add(engine);
    const lines = [`${incoming.method ?? "GET"} ${incoming.url ?? "/"} HTTP/1.1`];
    for (let at = 0; at < incoming.rawHeaders.length; at += 2) {
      lines.push(`${incoming.rawHeaders[at] ?? ""}: ${incoming.rawHeaders[at + 1] ?? ""}`);
    }
    engine.write(`${lines.join("\r\n")}\r\n\r\n`);
    engine.write(head);
    client.pipe(engine).pipe(client);
    engine.on("error", () => client.destroy());
    client.on("error", () => engine.destroy());
    client.on("close", () => engine.destroy());
    engine.on("close", () => {
      this.#sockets.delete(engine);
      client.destroy();
    });
  }

  #record({ method = "GET", url = "/" }: IncomingMessage): Arrival {
    const recorded = { method, path: url.replace(/^\/v\d+\.\d+/, ""), body: [] };
    this.#requests.push(recorded);
    const trap = this.#trap;
    if (trap?.matches(recorded) !== true) return { recorded, trap: undefined };
    this.#trap = undefined;
    return { recorded, trap };
  }
}

/** `METHOD path`, with names and ids as `NAME` and `ID`. */
export function describeRequest({ method, path }: RecordedRequest): string {
  const shown = path
    .replace(/[0-9a-f]{64}/g, "ID")
    .replace(/name=[^&]*/, "name=NAME")
    .replace(/filters=[^&]*/, "filters=FILTERS")
    .replace(/=true\b/g, "=1");
  return `${method} ${shown}`;
}
