/** The sending half of a connection: frames of all streams, one after another. */
import type { Duplex } from "node:stream";
import { dataFrameHeader } from "./frames.js";

/** Payload of one data frame at most: other streams get their turn after it. */
const dataBytes = 64 * 1024;
/** What the transport is given before it has to take it: enough that a system call is worth its while. */
const roundBytes = 256 * 1024;
/** Up to here, header and payload become one buffer: cheaper than two, and one message where the transport has messages. */
const copiedBytes = 2 * 1024;

type Done = (error?: Error | null) => void;

/** One write of a stream, or its end. */
interface Pending {
  readonly streamId: number;
  /** Not sent yet; the first one may have been cut. */
  readonly chunks: Buffer[];
  readonly fin: boolean;
  readonly done: Done;
}

/**
 * A stream has at most one write here, as a Writable gives them, so the streams push back on their sources. Control frames
 * go out at once, before data that waits. Data waits while the transport is full; the streams then take turns.
 */
export class FrameWriter {
  readonly #transport: Duplex;
  readonly #controlLimitBytes: number;
  readonly #onControlBacklog: (backlog: "full" | "gone") => void;
  /** Writes that are not sent, by stream, in the order of their turns. */
  readonly #queue = new Map<number, Pending>();
  /** Writes that the transport has, but has not taken yet. */
  readonly #handedOver = new Map<number, Pending>();
  #controlBytes = 0;
  #lastDataMs = 0;
  #pumping = false;
  readonly #onDrain = (): void => {
    this.#drained();
  };

  /** `onControlBacklog`: "full" when the transport holds more than `controlLimitBytes` of control frames back. */
  constructor(
    transport: Duplex,
    controlLimitBytes: number,
    onControlBacklog: (backlog: "full" | "gone") => void,
  ) {
    this.#transport = transport;
    this.#controlLimitBytes = controlLimitBytes;
    this.#onControlBacklog = onControlBacklog;
    transport.on("drain", this.#onDrain);
  }

  /** When the last data frame went out, by `performance.now()`. */
  get lastDataMs(): number {
    return this.#lastDataMs;
  }

  /** What is written meanwhile goes out at once: the replies to several frames are one system call. */
  together(work: () => void): void {
    this.#transport.cork();
    try {
      work();
    } finally {
      this.#transport.uncork();
    }
  }

  control(frame: Buffer): void {
    if (!this.#transport.writable) return;
    if (this.#transport.write(frame)) return;
    this.#controlBytes += frame.length;
    if (this.#controlBytes > this.#controlLimitBytes) this.#onControlBacklog("full");
  }

  /** Takes `chunks`; `done` when the transport took them. Not again for this stream before that. */
  data(streamId: number, chunks: Buffer[], done: Done): void {
    this.#add({ streamId, chunks, fin: false, done });
  }

  /** The end of what this side sends on the stream. */
  end(streamId: number, done: Done): void {
    this.#add({ streamId, chunks: [], fin: true, done });
  }

  /** Forgets what is not sent yet of this stream. Its `done` gets `error`. */
  cancel(streamId: number, error: Error): void {
    const pending = this.#queue.get(streamId) ?? this.#handedOver.get(streamId);
    if (pending === undefined) return;
    this.#queue.delete(streamId);
    this.#handedOver.delete(streamId);
    pending.done(error);
  }

  /** Writes nothing any more. The streams cancel what they have here. */
  stop(): void {
    this.#transport.off("drain", this.#onDrain);
  }

  #add(pending: Pending): void {
    this.#queue.set(pending.streamId, pending);
    this.#pump();
  }

  #drained(): void {
    if (this.#controlBytes > 0) {
      this.#controlBytes = 0;
      this.#onControlBacklog("gone");
    }
    const taken = [...this.#handedOver.values()];
    this.#handedOver.clear();
    for (const { done } of taken) done();
    this.#pump();
  }

  #pump(): void {
    const transport = this.#transport;
    // `done` may bring the next write of its stream.
    if (this.#pumping || this.#isFull()) return;
    this.#pumping = true;
    transport.cork();
    try {
      while (transport.writable && transport.writableLength < roundBytes) {
        const pending = this.#queue.values().next().value;
        if (pending === undefined) break;
        this.#queue.delete(pending.streamId);
        this.#writeFrame(pending);
        if (pending.chunks.length > 0) this.#queue.set(pending.streamId, pending);
        else if (this.#isFull()) this.#handedOver.set(pending.streamId, pending);
        else pending.done();
      }
    } finally {
      this.#pumping = false;
      transport.uncork();
    }
  }

  #isFull(): boolean {
    return this.#transport.writableNeedDrain;
  }

  #writeFrame({ streamId, chunks, fin }: Pending): void {
    const { payload, length } = takeUpTo(chunks, dataBytes);
    this.#lastDataMs = performance.now();
    const header = dataFrameHeader(streamId, length, { fin });
    if (length <= copiedBytes) {
      this.#transport.write(Buffer.concat([header, ...payload]));
      return;
    }
    this.#transport.write(header);
    for (const bytes of payload) this.#transport.write(bytes);
  }
}

/** Cuts up to `limitBytes` from the front of `chunks`. */
function takeUpTo(
  chunks: Buffer[],
  limitBytes: number,
): { readonly payload: Buffer[]; readonly length: number } {
  const payload: Buffer[] = [];
  let length = 0;
  while (length < limitBytes) {
    const [chunk] = chunks;
    if (chunk === undefined) break;
    const bytes = chunk.subarray(0, limitBytes - length);
    payload.push(bytes);
    length += bytes.length;
    if (bytes.length < chunk.length) chunks[0] = chunk.subarray(bytes.length);
    else chunks.shift();
  }
  return { payload, length };
}
