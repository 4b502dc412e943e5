/** Reads answers of the engine: whole, in pieces, by line. Every reader ends the response. */
import { Readable } from "node:stream";
import { linkAbort } from "../../../lib/abort.js";
import { ShimError } from "../../../lib/errors.js";
import type { Semaphore } from "../../../lib/sync/semaphore.js";
import type { HttpAnswer } from "./connection.js";
import { brokenAnswer } from "./errors.js";
import { notJson } from "./json.js";
import { type Essentials, JsonTrimmer } from "./json-stream.js";

/** One answer, read to its end. */
export interface Answer {
  readonly status: number;
  readonly headers: HttpAnswer["headers"];
  readonly body: Buffer;
  /** The answer was too large, and the body is what matters of it. */
  readonly isTrimmed: boolean;
}

export interface BodyLimits {
  readonly action: string;
  readonly limitBytes: number;
  /** Gets a body that is too large, instead of memory. */
  readonly trimmer?: JsonTrimmer | undefined;
  /** Limits the bodies of more than `smallBytes` that are in memory at once. */
  readonly large?: Semaphore;
}

/** Most descriptions of pods are shorter. One of them never waits for larger ones. */
export const smallBytes = 64 * 1024;

/**
 * The body of `response`, or what the trimmer keeps of it. `exhausted` when it is longer than `limitBytes`
 * and there is no trimmer, `unavailable` when it is cut short.
 */
export async function readBody(
  response: HttpAnswer,
  { action, limitBytes, trimmer, large }: BodyLimits,
  signal: AbortSignal,
): Promise<Buffer> {
  // Listeners and not an async iterator: this is the path of every inspect.
  return new Promise((resolve, reject) => {
    let chunks: Buffer[] = [];
    let size = 0;
    let link: Disposable | undefined = undefined;
    let isLarge = false;
    let settled: AbortController | undefined;
    const settle = (): void => {
      link?.[Symbol.dispose]();
      settled?.abort();
    };
    const fail = (error: ShimError): void => {
      settle();
      reject(error);
      response.destroy();
    };
    const waitForTurn = async (semaphore: Semaphore): Promise<void> => {
      response.pause();
      const { signal } = (settled = new AbortController());
      await semaphore.run(signal, async () => {
        response.resume();
        await new Promise<void>((resolve) => linkAbort(signal, resolve));
      });
    };
    link = linkAbort(signal, () => fail(ShimError.from(signal.reason)));
    response.read({
      data: (chunk) => {
        chunks.push(chunk);
        size += chunk.length;
        if (size > smallBytes && !isLarge && large !== undefined) {
          isLarge = true;
          // Its only error is that the reading ended while it waited.
          waitForTurn(large).catch(() => undefined);
        }
        if (size <= limitBytes) return;
        if (trimmer === undefined) {
          fail(new ShimError("exhausted", `${action}: the answer has more than ${limitBytes} bytes`));
        } else {
          for (const one of chunks) trimmer.push(one);
          chunks = [];
        }
      },
      end: () => {
        if (size > limitBytes && trimmer?.text === undefined) {
          fail(notJson(action));
          return;
        }
        settle();
        resolve(size > limitBytes ? Buffer.from(trimmer?.text ?? "") : Buffer.concat(chunks, size));
      },
      broken: (error) => fail(brokenAnswer(action, error)),
    });
  });
}

/**
 * The body of `response` as a stream that fails with ShimErrors when it breaks or `signal` aborts. Destroying
 * it closes the connection, also before the first read. Reading slowly makes the engine wait.
 */
export function openBody(response: HttpAnswer, action: string, signal: AbortSignal): Readable {
  let link: Disposable | undefined = undefined;
  const stream = new Readable({
    read: () => response.resume(),
    destroy: (error, callback) => {
      link?.[Symbol.dispose]();
      response.destroy();
      callback(error);
    },
  });
  // A reader that is not reading now gets the failure from its next read: it must not count as unhandled.
  stream.on("error", () => undefined);
  link = linkAbort(signal, () => stream.destroy(ShimError.from(signal.reason)));
  response.read({
    data: (chunk) => {
      if (!stream.push(chunk)) response.pause();
    },
    end: () => stream.push(null),
    broken: (error) => stream.destroy(brokenAnswer(action, error)),
  });
  return stream;
}

/**
 * The body of `response` as it arrives; reading slowly makes the engine wait. Throws the reason of `signal`
 * when that aborts, `unavailable` when the connection breaks. Leaving the loop closes the connection.
 */
export async function* readChunks(
  response: HttpAnswer,
  action: string,
  signal: AbortSignal,
): AsyncGenerator<Buffer, void, undefined> {
  for await (const chunk of openBody(response, action, signal)) yield chunk as Buffer;
}

const newline = 0x0a;

/**
 * The lines of a stream, without their ends, empty ones left out. A line may come in any number of chunks.
 * One of more than `limitBytes` is `exhausted`; with `essentials` it is reduced to them, and empty when it is
 * no JSON. What follows the last line end is a line as well.
 */
export async function* splitLines(
  chunks: AsyncIterable<Buffer>,
  options: { readonly action: string; readonly limitBytes: number; readonly essentials?: Essentials },
): AsyncGenerator<string, void, undefined> {
  const { action, limitBytes, essentials } = options;
  let pending: Buffer[] = [];
  let size = 0;
  let trimmer: JsonTrimmer | undefined;
  /** Undefined for an empty line. */
  const take = (): string | undefined => {
    const whole = Buffer.concat(pending).toString("utf8").trim();
    const line = trimmer === undefined ? whole || undefined : (trimmer.text ?? "");
    pending = [];
    size = 0;
    trimmer = undefined;
    return line;
  };
  const add = (piece: Buffer): void => {
    if (piece.length === 0) return;
    pending.push(piece);
    size += piece.length;
    if (size <= limitBytes) return;
    if (essentials === undefined)
      throw new ShimError("exhausted", `${action}: the engine sent a line of more than ${limitBytes} bytes`);
    trimmer ??= new JsonTrimmer(essentials);
    for (const one of pending) trimmer.push(one);
    pending = [];
  };
  for await (const chunk of chunks) {
    let start = 0;
    for (let end = chunk.indexOf(newline); end !== -1; end = chunk.indexOf(newline, start)) {
      add(chunk.subarray(start, end));
      start = end + 1;
      const line = take();
      if (line !== undefined) yield line;
    }
    add(chunk.subarray(start));
  }
  const line = take();
  if (line !== undefined) yield line;
}
