/** Exec and attach over SPDY: a stream for each of error, stdin, stdout, stderr and resize. */
import { Readable, Writable, type Duplex } from "node:stream";
import { orAbort } from "../../../lib/abort.js";
import { endOf } from "../../../lib/streams.js";
import type { CommandSession } from "../../ports/streaming.js";
import { clientGone, probeIntervalMs } from "../client-connection.js";
import type { CommandClient } from "../command-session.js";
import { ResizeQueue } from "../resize-queue.js";
import { resetStatus } from "../../../lib/spdy/frames.js";
import { SpdyConnection, type SpdyStream } from "./spdy-connection.js";

/** Best first. v1 to v3 have no exit codes, v1 and v2 no sizes. */
export const spdyCommandProtocols = [
  "v4.channel.k8s.io",
  "v3.channel.k8s.io",
  "v2.channel.k8s.io",
  "channel.k8s.io",
] as const;

export type SpdyCommandProtocol = (typeof spdyCommandProtocols)[number];

type StreamType = "error" | "stdin" | "stdout" | "stderr" | "resize";

export class SpdyCommand {
  readonly connection: SpdyConnection;
  /** The client's streams, when all that the session needs are open. */
  readonly opened: Promise<CommandClient>;
  readonly #streams = new Map<StreamType, SpdyStream>();
  readonly #expected: ReadonlySet<StreamType>;
  readonly #resizes = new ResizeQueue();
  #allOpened!: (client: CommandClient) => void;

  constructor(
    transport: Duplex,
    private readonly protocol: SpdyCommandProtocol,
    { session, head }: { readonly session: CommandSession; readonly head: Buffer },
  ) {
    this.#expected = expectedStreams(session, protocol);
    this.opened = new Promise((resolve) => {
      this.#allOpened = resolve;
    });
    if (!this.#expected.has("resize")) this.#resizes.end();
    this.connection = new SpdyConnection(transport, {
      head,
      limits: { probeMs: probeIntervalMs },
      onStream: (stream) => {
        this.#add(stream);
      },
    });
    void this.connection.closed.then(() => this.#resizes.end());
  }

  #add(stream: SpdyStream): void {
    stream.on("error", () => undefined); // The session receives it from the streams that it uses.
    const type = stream.headers.get("streamtype") as StreamType | undefined;
    if (type === undefined || !this.#expected.has(type) || this.#streams.has(type)) {
      stream.reset(resetStatus.refusedStream);
      return;
    }
    this.#streams.set(type, stream);
    if (this.#streams.size < this.#expected.size) return;
    this.#allOpened(this.#client());
  }

  #client(): CommandClient {
    const [error, stdin, stdout, stderr, resize] = (
      ["error", "stdin", "stdout", "stderr", "resize"] as const
    ).map((type) => this.#streams.get(type));
    // Clients send no data on these, but their half-close must be read.
    for (const output of [error, stdout, stderr]) output?.resume();
    this.#resizes.readFrom(resize);
    const outputs = [stdout, stderr].map((stream) => stream && detachedWritable(stream));
    return {
      connection: this.connection,
      statusForm: this.protocol === "v4.channel.k8s.io" ? "json" : "text",
      streams: {
        stdin: stdin && detachedReadable(stdin),
        stdout: outputs[0],
        stderr: outputs[1],
        resizes: this.#resizes,
      },
      finish: async (status, signal) => {
        this.#resizes.end();
        await orAbort(endOf(error, status), signal);
        await orAbort(Promise.all(outputs.map((output) => endOf(output))), signal);
        // The server's side of stdin stays open until now: its end tells the client to send no more.
        await orAbort(Promise.all([stdout, stderr, stdin, resize].map((stream) => endOf(stream))), signal);
        await this.connection.close(signal);
      },
    };
  }
}

function expectedStreams(session: CommandSession, protocol: SpdyCommandProtocol): ReadonlySet<StreamType> {
  const { stdin, stdout, stderr, tty } = session;
  const sizes = tty && (protocol === "v4.channel.k8s.io" || protocol === "v3.channel.k8s.io");
  const wanted = { error: true, stdin, stdout, stderr, resize: sizes };
  return new Set((Object.keys(wanted) as StreamType[]).filter((type) => wanted[type]));
}

const ignore = (): void => undefined;

/** A session may destroy it without a reset of the client's stream, which clients would print. */
function detachedReadable(source: Readable): Readable {
  const input = new Readable({
    read: () => void source.resume(),
    destroy(error, done) {
      source.resume();
      done(error);
    },
  });
  input.on("error", ignore);
  source.on("error", ignore);
  source.on("data", (chunk: Buffer) => {
    if (!input.destroyed && !input.push(chunk)) source.pause();
  });
  source.once("end", () => {
    if (!input.destroyed) input.push(null);
  });
  source.once("close", () => {
    if (!source.readableEnded) input.destroy(clientGone());
  });
  if (source.destroyed) input.destroy(clientGone());
  return input;
}

/** Writes to `target` and passes on the end. When it is destroyed before, `target` stays open. */
function detachedWritable(target: Writable): Writable {
  const output = new Writable({
    write(chunk: Buffer, _encoding, done) {
      target.write(chunk, done);
    },
    final(done) {
      target.end(done);
    },
  });
  output.on("error", ignore);
  target.on("error", ignore);
  target.once("close", () => {
    if (!target.writableFinished) output.destroy(clientGone());
  });
  if (target.destroyed) output.destroy(clientGone());
  return output;
}
