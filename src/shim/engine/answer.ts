/** Reading what the engine answers: whole, in pieces, by line. Every reader ends the response, whatever happens. */
import type { IncomingMessage } from "node:http";
import { ShimError } from "../base/errors.js";
import { brokenAnswer, lostAnswer } from "./errors.js";

/** One answer, read to its end. */
export interface Answer {
  readonly status: number;
  readonly headers: IncomingMessage["headers"];
  readonly body: Buffer;
}

/** The body of `response`; `exhausted` when it is longer than `limitBytes`, `unavailable` when it is cut short. */
export async function readBody(
  response: IncomingMessage,
  options: { readonly action: string; readonly limitBytes: number },
  signal: AbortSignal,
): Promise<Buffer> {
  const { action, limitBytes } = options;
  // Listeners and not an async iterator: this is the path of every inspect.
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const fail = (error: ShimError): void => {
      signal.removeEventListener("abort", onAbort);
      reject(error);
      response.destroy();
    };
    const onAbort = (): void => {
      fail(ShimError.from(signal.reason));
    };
    response.on("data", (chunk: Buffer) => {
      chunks.push(chunk);
      size += chunk.length;
      if (size > limitBytes) {
        fail(new ShimError("exhausted", `${action}: the answer has more than ${String(limitBytes)} bytes`));
      }
    });
    response.on("end", () => {
      signal.removeEventListener("abort", onAbort);
      resolve(Buffer.concat(chunks, size));
    });
    response.on("error", (error) => {
      fail(brokenAnswer(action, error));
    });
    response.on("close", () => {
      if (!response.readableEnded) fail(brokenAnswer(action));
    });
    if (signal.aborted) onAbort();
    else signal.addEventListener("abort", onAbort, { once: true });
  });
}

/**
 * The body of `response` as it arrives; reading slowly makes the engine wait. Throws the reason of `signal` when that
 * aborts, `unavailable` when the connection breaks. Leaving the loop closes the connection.
 */
export async function* readChunks(
  response: IncomingMessage,
  action: string,
  signal: AbortSignal,
): AsyncGenerator<Buffer, void, undefined> {
  const onAbort = (): void => {
    response.destroy();
  };
  if (signal.aborted) onAbort();
  else signal.addEventListener("abort", onAbort, { once: true });
  try {
    for await (const chunk of response) yield chunk as Buffer;
    if (signal.aborted) throw ShimError.from(signal.reason);
    if (!response.complete) throw brokenAnswer(action);
  } catch (error) {
    if (signal.aborted) throw ShimError.from(signal.reason);
    throw error instanceof ShimError ? error : brokenAnswer(action, error);
  } finally {
    signal.removeEventListener("abort", onAbort);
    response.destroy();
  }
}

const newline = 0x0a;

/**
 * The lines of a stream, without their ends, empty ones left out. A line may come in any number of chunks; one of more
 * than `limitBytes` is `exhausted`. What follows the last line end is a line as well.
 */
export async function* splitLines(
  chunks: AsyncIterable<Buffer>,
  options: { readonly action: string; readonly limitBytes: number },
): AsyncGenerator<string, void, undefined> {
  let pending: Buffer[] = [];
  let size = 0;
  const take = (): string => {
    const line = Buffer.concat(pending, size).toString("utf8").trim();
    pending = [];
    size = 0;
    return line;
  };
  const add = (piece: Buffer): void => {
    if (piece.length === 0) return;
    pending.push(piece);
    size += piece.length;
    if (size > options.limitBytes) {
      const limit = String(options.limitBytes);
      throw new ShimError(
        "exhausted",
        `${options.action}: the engine sent a line of more than ${limit} bytes`,
      );
    }
  };
  for await (const chunk of chunks) {
    let start = 0;
    for (let end = chunk.indexOf(newline); end !== -1; end = chunk.indexOf(newline, start)) {
      add(chunk.subarray(start, end));
      start = end + 1;
      const line = take();
      if (line !== "") yield line;
    }
    add(chunk.subarray(start));
  }
  const line = take();
  if (line !== "") yield line;
}

/** `text` as JSON, or `unknown` naming the action; the text itself is not quoted, it may hold secrets. */
export function parseJson(text: string, action: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw new ShimError("unknown", `${action}: the engine's answer is not JSON`, lostAnswer, {
      cause: error,
    });
  }
}
