/** The transport of a SPDY connection: a socket, or the Duplex of a WebSocket; its pauses and its end. */
import type { Duplex } from "node:stream";

interface TransportEvents {
  readonly onData: (chunk: Buffer) => void;
  /** The client has disconnected, or can send no more. Not after `end()`. */
  readonly onGone: () => void;
}

export class Transport {
  /** Resolves when it is closed and all listeners are removed. */
  readonly closed: Promise<void>;
  #mode: "reading" | "paused" | "ended" = "reading";
  #linger: NodeJS.Timeout | undefined;

  /** Events follow after the constructor has returned; the first data is `head`, which was read before. */
  constructor(
    private readonly duplex: Duplex,
    head: Buffer | undefined,
    private readonly lingerMs: number,
    events: TransportEvents,
  ) {
    let resolveClosed: () => void = () => undefined;
    this.closed = new Promise((resolve) => (resolveClosed = resolve));
    const onData = (chunk: Buffer): void => {
      // After the end it is read only to detect the client's end.
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
      // True a moment before `error` and `close` are emitted, and also after that, when no event follows.
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
    this.duplex.pause();
  }

  resume(): void {
    if (this.#mode !== "paused") return;
    this.#mode = "reading";
    this.duplex.resume();
  }

  /** Gives the client time to read: a socket closed with unconsumed input is a reset, and data is lost. */
  end(): void {
    if (this.#mode === "ended") return;
    this.#mode = "ended";
    this.duplex.end();
    this.duplex.resume();
    this.#linger = setTimeout(() => {
      this.duplex.destroy();
    }, this.lingerMs);
  }

  destroy(): void {
    this.#mode = "ended";
    this.duplex.destroy();
  }
}

/** Pauses a connection for as long as there is any reason. */
export class ReadGate {
  readonly #reasons = new Set<unknown>();
  #timer: NodeJS.Timeout | undefined;
  #disposed = false;

  /** `probe` is called every `probeMs` while the gate is closed, as only a write then detects a lost peer. */
  constructor(
    private readonly transport: Pick<Transport, "pause" | "resume">,
    private readonly probeMs: number,
    private readonly probe: () => void,
  ) {}

  close(reason: unknown): void {
    if (this.#disposed) return;
    this.#reasons.add(reason);
    if (this.#timer !== undefined) return;
    this.transport.pause();
    this.#timer = setInterval(this.probe, this.probeMs).unref();
  }

  /** Removes the reason. After the last one the transport resumes. */
  open(reason: unknown): void {
    if (!this.#reasons.delete(reason) || this.#reasons.size > 0) return;
    this.#stopProbing();
    this.transport.resume();
  }

  /** Ignores all reasons, and stops probing. */
  dispose(): void {
    this.#disposed = true;
    this.#reasons.clear();
    this.#stopProbing();
  }

  #stopProbing(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}
