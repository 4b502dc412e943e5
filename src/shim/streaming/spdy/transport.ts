/** The life of what a SPDY connection runs over: a socket, or the Duplex of a WebSocket. */
import type { Duplex } from "node:stream";

export interface TransportEvents {
  readonly onData: (chunk: Buffer) => void;
  /** The client is gone, or can send no more. Not after `end()`. */
  readonly onGone: () => void;
}

export class Transport {
  /** Resolves when it is closed. None of the listeners is there any more. */
  readonly closed: Promise<void>;
  readonly #duplex: Duplex;
  readonly #lingerMs: number;
  #mode: "reading" | "paused" | "ended" = "reading";
  #linger: NodeJS.Timeout | undefined;

  /** Events come later than the constructor returns; `head`, what was read before, comes first. */
  constructor(duplex: Duplex, head: Buffer | undefined, lingerMs: number, events: TransportEvents) {
    this.#duplex = duplex;
    this.#lingerMs = lingerMs;
    let resolveClosed: () => void = () => undefined;
    this.closed = new Promise((resolve) => (resolveClosed = resolve));
    const onData = (chunk: Buffer): void => {
      // After the end it is read only so that the client's end is seen.
      if (this.#mode !== "ended") events.onData(chunk);
    };
    const onGone = (): void => {
      if (this.#mode !== "ended") events.onGone();
    };
    const onClose = (): void => {
      onGone();
      clearTimeout(this.#linger);
      duplex.off("data", onData).off("end", onGone).off("error", onGone).off("close", onClose);
      resolveClosed();
    };
    duplex.on("end", onGone).on("error", onGone).on("close", onClose);
    queueMicrotask(() => {
      // True a moment before `error` and `close` are emitted; when they have been, nothing else tells.
      if (duplex.closed) setImmediate(onClose);
      else if (duplex.destroyed || duplex.readableEnded) onGone();
      else {
        if (head !== undefined) onData(head);
        duplex.on("data", onData);
        if (this.#mode !== "paused") duplex.resume();
      }
    });
  }

  pause(): void {
    if (this.#mode !== "reading") return;
    this.#mode = "paused";
    this.#duplex.pause();
  }

  resume(): void {
    if (this.#mode !== "paused") return;
    this.#mode = "reading";
    this.#duplex.resume();
  }

  /**
   * Sends what was written, and gives the client a moment to take it and to close: a socket that is closed with unread
   * bytes in it cuts off what was sent.
   */
  end(): void {
    if (this.#mode === "ended") return;
    this.#mode = "ended";
    this.#duplex.end();
    this.#duplex.resume();
    this.#linger = setTimeout(() => {
      this.#duplex.destroy();
    }, this.#lingerMs);
  }

  destroy(): void {
    this.#mode = "ended";
    this.#duplex.destroy();
  }
}
