/** A streaming server without a network: tests open the sessions themselves, with streams in memory. */
import { PassThrough, type Readable } from "node:stream";
import type {
  CommandSession,
  PortForwardSession,
  StreamingServer,
  StreamingSession,
  TerminalSize,
} from "../../src/shim/ports/streaming.js";

export class FakeStreamingServer implements StreamingServer {
  readonly offers: StreamingSession[] = [];

  offer(session: StreamingSession): string {
    return `http://127.0.0.1:1/${session.kind}/${String(this.offers.push(session) - 1)}`;
  }

  /** The session that a URL of `offer` opens. */
  command(url: string | undefined): CommandSession {
    const session = this.#of(url);
    if (session.kind === "portForward") throw new Error(`${url} opens no command`);
    return session;
  }

  portForward(url: string | undefined): PortForwardSession {
    const session = this.#of(url);
    if (session.kind !== "portForward") throw new Error(`${url} opens no port-forward`);
    return session;
  }

  #of(url: string | undefined): StreamingSession {
    const session = this.offers[Number(url?.split("/").at(-1))];
    if (session === undefined) throw new Error(`${url} is no URL of an offer`);
    return session;
  }
}

/** A client that has opened the session `session`; what it did not ask for it does not have. */
export class TestClient {
  readonly stdin = new PassThrough();
  readonly stdout: PassThrough;
  readonly stderr: PassThrough;
  /** The exit code. */
  readonly result: Promise<number>;
  readonly #leaver = new AbortController();
  readonly #sizes: TerminalSize[] = [];
  #wake: (() => void) | undefined;
  #hasEnded = false;

  constructor(session: CommandSession, options: { readonly highWaterMark?: number } = {}) {
    this.stdout = new PassThrough(options);
    this.stderr = new PassThrough(options);
    this.result = session
      .run(
        {
          stdin: session.stdin ? this.stdin : undefined,
          stdout: session.stdout ? this.stdout : undefined,
          stderr: session.stderr ? this.stderr : undefined,
          resizes: this.#resizes(),
        },
        this.#leaver.signal,
      )
      .finally(() => {
        this.#hasEnded = true;
        this.#wake?.();
      });
    this.result.catch(() => undefined); // A test may await it, or not.
  }

  resize(columns: number, rows: number): void {
    this.#sizes.push({ columns, rows });
    this.#wake?.();
  }

  /** The connection breaks. */
  leave(reason: Error = new Error("the client left")): void {
    this.#leaver.abort(reason);
    for (const stream of [this.stdin, this.stdout, this.stderr]) stream.destroy();
  }

  async *#resizes(): AsyncGenerator<TerminalSize, void, undefined> {
    while (!this.#hasEnded) {
      const size = this.#sizes.shift();
      if (size === undefined) await new Promise<void>((resolve) => (this.#wake = resolve));
      else yield size;
    }
  }
}

/** Everything until the end, as text. Leaves the other direction as it is, which an iterator would not. */
export async function textOf(stream: Readable): Promise<string> {
  const chunks: Buffer[] = [];
  stream.on("data", (chunk: Buffer) => chunks.push(chunk));
  await new Promise((resolve, reject) => {
    stream.once("end", resolve);
    stream.once("error", reject);
    stream.once("close", () => reject(new Error("closed before its end")));
  });
  return Buffer.concat(chunks).toString();
}
