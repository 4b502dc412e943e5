/**
 * Connections to the engine that are kept for the next request, each with one request at a time. In place of
 * `node:http`, for the reasons and figures of docs/decisions/0035-own-http-client.md.
 */
import { once } from "node:events";
import type { Socket } from "node:net";
import type { Readable } from "node:stream";
import { type AnswerHead, AnswerParser } from "./answer-parser.js";

export interface HttpRequest {
  readonly method: string;
  /** Without spaces and line ends. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string | number>>;
  readonly body: string | Buffer | Readable | undefined;
  /** The connection is to be upgraded to a raw stream. */
  readonly hijack: boolean;
}

/** Called once: with the head of the answer, or with the connection itself when the server has left HTTP. */
export type OnAnswer = (error: Error | null, result: HttpAnswer | Socket | null) => void;

export interface AnswerReader {
  data(chunk: Buffer): void;
  end(): void;
  /** The connection broke before the end. */
  broken(error?: Error): void;
}

/** What may wait for a reader before the server must. */
const bufferLimitBytes = 64 * 1024;
/** More connections without a request are closed. */
const idleLimit = 32;

/** An answer whose head has arrived. */
export class HttpAnswer implements AnswerHead {
  readonly status: number;
  readonly headers: AnswerHead["headers"];
  destroyed = false;
  #reader: AnswerReader | undefined;
  /** What arrived before there was a reader. */
  #buffered: Buffer[] = [];
  #bufferedBytes = 0;
  #end: "none" | "whole" | "broken" = "none";
  #error: Error | undefined;

  constructor(
    head: AnswerHead,
    private readonly socket: Socket,
  ) {
    this.status = head.status;
    this.headers = head.headers;
  }

  /** To be called once. All that has arrived is given at once. */
  read(reader: AnswerReader): void {
    this.#reader = reader;
    if (this.#bufferedBytes > bufferLimitBytes) this.resume();
    for (const chunk of this.#buffered.splice(0)) if (!this.destroyed) reader.data(chunk);
    if (this.#end !== "none") this.#tellEnd(reader);
  }

  /** The reader gets nothing more until `resume`, except what has arrived. */
  pause(): void {
    if (this.#end === "none" && !this.destroyed) this.socket.pause();
  }

  resume(): void {
    if (this.#end === "none" && !this.destroyed) this.socket.resume();
  }

  /** The reader hears of nothing more. Before its end the answer's connection is closed. */
  destroy(): void {
    if (this.destroyed) return;
    this.destroyed = true;
    if (this.#end === "none") this.socket.destroy();
  }

  /** @internal */
  take(chunk: Buffer): void {
    if (this.destroyed) return;
    if (this.#reader !== undefined) {
      this.#reader.data(chunk);
      return;
    }
    this.#buffered.push(chunk);
    this.#bufferedBytes += chunk.length;
    if (this.#bufferedBytes > bufferLimitBytes) this.pause();
  }

  /** @internal */
  finish(end: "whole" | "broken", error?: Error): void {
    this.#end = end;
    this.#error = error;
    if (this.#reader !== undefined) this.#tellEnd(this.#reader);
  }

  #tellEnd(reader: AnswerReader): void {
    if (this.destroyed) return;
    if (this.#end === "whole") reader.end();
    else reader.broken(this.#error);
  }
}

/** One request on its way. */
interface Exchange {
  readonly parser: AnswerParser;
  readonly hijack: boolean;
  /** Until it was called. */
  onAnswer: OnAnswer | undefined;
  answer: HttpAnswer | undefined;
  isSent: boolean;
}

class Connection {
  #exchange: Exchange | undefined;
  #error: Error | undefined;
  /** Of `performance.now()`. */
  #usableUntilMs = Infinity;

  constructor(
    readonly socket: Socket,
    private readonly onIdle: (connection: Connection) => void,
    idleMs: number,
  ) {
    socket.on("data", this.#onData);
    socket.on("end", this.#onEnd);
    socket.on("error", this.#onError);
    socket.on("close", this.#onClose);
    // The clock begins anew with each byte. A request may wait for its answer for as long as it likes.
    socket.setTimeout(idleMs).on("timeout", this.#onTimeout);
  }

  get isUsable(): boolean {
    const { destroyed, writable, readable } = this.socket;
    return !destroyed && writable && readable && performance.now() < this.#usableUntilMs;
  }

  /** The socket's timer and an idle connection keep no process alive. */
  send(request: HttpRequest, onAnswer: OnAnswer): void {
    const { method, path, headers, body, hijack } = request;
    let head = `${method} ${path} HTTP/1.1\r\n`;
    for (const [name, value] of Object.entries(headers)) head += `${name}: ${value}\r\n`;
    const parts = {
      head: (found: AnswerHead) => this.#onHead(exchange, found),
      data: (chunk: Buffer) => exchange.answer?.take(chunk),
      end: () => exchange.answer?.finish("whole"),
    };
    const parser = new AnswerParser(method, parts);
    const isSent = body === undefined || typeof body === "string" || Buffer.isBuffer(body);
    const exchange: Exchange = { parser, hijack, onAnswer, answer: undefined, isSent };
    this.#exchange = exchange;
    this.socket.ref();
    if (body === undefined || typeof body === "string") {
      this.socket.write(`${head}\r\n${body ?? ""}`);
    } else {
      this.socket.write(`${head}\r\n`);
      if (Buffer.isBuffer(body)) this.socket.write(body);
      else this.#sendChunks(body, exchange).catch((error: unknown) => this.#fail(error as Error));
    }
  }

  /** `body` is destroyed at the end, also when the connection ends before it: an answer may come first. */
  async #sendChunks(body: Readable, exchange: Exchange): Promise<void> {
    const { socket } = this;
    const closed = new AbortController();
    const onClose = (): void => {
      closed.abort();
      body.destroy();
    };
    socket.once("close", onClose);
    try {
      for await (const chunk of body as AsyncIterable<Buffer>) {
        if (socket.destroyed) return;
        if (chunk.length === 0) continue;
        socket.write(`${chunk.length.toString(16)}\r\n`);
        socket.write(chunk);
        if (!socket.write("\r\n")) await once(socket, "drain", { signal: closed.signal });
      }
    } finally {
      socket.off("close", onClose);
    }
    socket.write("0\r\n\r\n");
    exchange.isSent = true;
  }

  #fail(error: Error): void {
    this.#error ??= error;
    this.socket.destroy();
  }

  readonly #onData = (chunk: Buffer): void => {
    const exchange = this.#exchange;
    if (exchange === undefined) {
      // Nothing was asked for.
      this.socket.destroy();
      return;
    }
    try {
      const used = exchange.parser.push(chunk);
      if (!exchange.parser.isDone) return;
      if (exchange.answer === undefined) this.#handOver(exchange, chunk.subarray(used));
      else this.#release(exchange, used === chunk.length);
    } catch (error) {
      this.#fail(error as Error);
    }
  };

  #onHead(exchange: Exchange, head: AnswerHead): void {
    if (head.status === 101) return;
    exchange.answer = new HttpAnswer(head, this.socket);
    const { onAnswer } = exchange;
    exchange.onAnswer = undefined;
    onAnswer?.(null, exchange.answer);
  }

  #release({ parser, answer, isSent, hijack }: Exchange, isExact: boolean): void {
    this.#exchange = undefined;
    // A proxy before the engine says when it will close the connection. A request must not meet that.
    const seconds = /\btimeout=(\d+)/i.exec(answer?.headers["keep-alive"] ?? "")?.[1];
    if (seconds !== undefined) this.#usableUntilMs = performance.now() + (Number(seconds) - 1) * 1000;
    if (!isExact || !isSent || hijack || !parser.keepsConnection || !this.isUsable) {
      this.socket.destroy();
      return;
    }
    // A slow reader of the answer has paused it.
    if (this.socket.isPaused()) this.socket.resume();
    this.socket.unref();
    this.onIdle(this);
  }

  /** After `101 Switching Protocols`. `rest` was sent behind it. */
  #handOver({ onAnswer }: Exchange, rest: Buffer): void {
    const { socket } = this;
    this.#exchange = undefined;
    socket.off("data", this.#onData).off("end", this.#onEnd).off("error", this.#onError);
    socket.off("close", this.#onClose).off("timeout", this.#onTimeout).setTimeout(0);
    // As node:http does it: a listener for data, whenever it comes, makes it flow again.
    (socket as { readableFlowing: boolean | null }).readableFlowing = null;
    if (rest.length > 0) socket.unshift(rest);
    onAnswer?.(null, socket);
  }

  readonly #onEnd = (): void => {
    if (this.#exchange?.parser.endOfConnection() === true) this.#exchange = undefined;
  };

  readonly #onError = (error: Error): void => {
    this.#error ??= error;
  };

  readonly #onTimeout = (): void => {
    if (this.#exchange === undefined) this.socket.destroy();
  };

  readonly #onClose = (): void => {
    const exchange = this.#exchange;
    this.#exchange = undefined;
    if (exchange === undefined) return;
    exchange.answer?.finish("broken", this.#error);
    exchange.onAnswer?.(this.#error ?? hungUp(), null);
  };
}

/** The pool. It gives out the connection that was used last. */
export class Connections {
  readonly #idle: Connection[] = [];
  readonly #sockets = new Set<Socket>();

  constructor(
    private readonly connect: () => Socket,
    private readonly idleMs: number,
  ) {}

  /** Throws for headers that cannot be sent. Destroying the socket that it returns ends the request. */
  send(request: HttpRequest, onAnswer: OnAnswer): Socket {
    for (const [name, value] of Object.entries(request.headers)) {
      // eslint-disable-next-line no-control-regex -- These would begin another header, or a request.
      if (/[\x00-\x08\x0a-\x1f\x7f]|[^\x00-\xff]/.test(`${value}`)) throw new Error(`invalid header ${name}`);
    }
    const connection = this.#take();
    connection.send(request, onAnswer);
    return connection.socket;
  }

  /** Breaks every connection. */
  close(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  #take(): Connection {
    for (let kept = this.#idle.pop(); kept !== undefined; kept = this.#idle.pop()) {
      if (kept.isUsable) return kept;
      kept.socket.destroy();
    }
    const socket = this.connect();
    this.#sockets.add(socket);
    const connection = new Connection(socket, this.#keep, this.idleMs);
    socket.once("close", () => {
      this.#sockets.delete(socket);
      const index = this.#idle.indexOf(connection);
      if (index !== -1) this.#idle.splice(index, 1);
    });
    return connection;
  }

  readonly #keep = (connection: Connection): void => {
    if (this.#idle.length < idleLimit) this.#idle.push(connection);
    else connection.socket.destroy();
  };
}

function hungUp(): Error {
  return Object.assign(new Error("socket hang up"), { code: "ECONNRESET" });
}
