/**
 * What is done about each request before the gRPC library handles it: requests that never become complete cost a bounded
 * amount of memory for a bounded time, and headers that the library takes wrongly are put right or refused.
 */
import { status } from "@grpc/grpc-js";
import { constants, type IncomingHttpHeaders, type Http2Server, type ServerHttp2Stream } from "node:http2";

export interface IncomingLimits {
  /** How long a client may take to send its message. */
  readonly patienceMs: number;
  /** Requests of all connections whose message is not complete: with more, the oldest is refused. */
  readonly unfinished: number;
  /** Bytes of all these messages together: with more, the oldest is refused. */
  readonly unfinishedBytes: number;
}

/** Four messages of the largest size, at a time. Kubelets send theirs at once, with the headers. */
export const defaultLimits: IncomingLimits = {
  patienceMs: 20_000,
  unfinished: 1000,
  unfinishedBytes: 64 * 1024 * 1024,
};

interface Unfinished {
  bytes: number;
  readonly finish: () => void;
}

const turnAwayMs = 1_000;

/** Looks at every request of `server` before the listeners that it has; what is turned away here never reaches them. */
export function guardRequests(server: Http2Server, limits: IncomingLimits = defaultLimits): void {
  const unfinished = new Map<ServerHttp2Stream, Unfinished>();
  let totalBytes = 0;

  function refuseOldest(): void {
    const [oldest] = unfinished.keys();
    if (oldest !== undefined) refuse(oldest, status.RESOURCE_EXHAUSTED, "too many requests are not complete");
    // Whether or not the stream can be closed, it is not counted twice.
    if (oldest !== undefined) unfinished.get(oldest)?.finish();
  }

  function watch(stream: ServerHttp2Stream): void {
    const timer = setTimeout(() => {
      const seconds = String(Math.round(limits.patienceMs / 1000));
      refuse(stream, status.DEADLINE_EXCEEDED, `the request was not complete after ${seconds} s`);
    }, limits.patienceMs);
    const entry: Unfinished = {
      bytes: 0,
      finish: () => {
        if (!unfinished.delete(stream)) return;
        clearTimeout(timer);
        totalBytes -= entry.bytes;
        stream.removeListener("data", onData);
      },
    };
    const onData = (chunk: Buffer): void => {
      entry.bytes += chunk.length;
      totalBytes += chunk.length;
      while (totalBytes > limits.unfinishedBytes && unfinished.size > 0) refuseOldest();
    };
    unfinished.set(stream, entry);
    stream.on("data", onData);
    stream.once("end", entry.finish);
    stream.once("close", entry.finish);
    if (unfinished.size > limits.unfinished) refuseOldest();
  }

  const handlers = server.listeners("stream");
  server.removeAllListeners("stream");
  server.on("stream", (stream, headers, ...rest) => {
    const problem = readTimeout(headers);
    if (problem !== undefined) {
      turnAway(stream, status.INVALID_ARGUMENT, problem);
      return;
    }
    if (isCompressed(headers)) {
      // What cannot be unpacked would be INTERNAL, and no client of the CRI packs its requests.
      turnAway(stream, status.UNIMPLEMENTED, "compressed requests are not supported");
      return;
    }
    if (!stream.readableEnded) watch(stream);
    for (const handle of handlers) Reflect.apply(handle, server, [stream, headers, ...rest]);
  });
}

/**
 * Refuses a request that nobody handles yet. It is closed when all of it has come, or a second later: a reset overtakes an
 * answer that is not written yet, and the client would never hear why.
 */
function turnAway(stream: ServerHttp2Stream, code: status, details: string): void {
  answer(stream, code, details);
  const timer = setTimeout(() => stream.close(constants.NGHTTP2_NO_ERROR), turnAwayMs);
  stream.once("close", () => clearTimeout(timer));
  stream.on("error", () => undefined).resume();
}

/** Refuses a request that is being handled, and takes no more of it at once: its handler must not answer, too. */
function refuse(stream: ServerHttp2Stream, code: status, details: string): void {
  answer(stream, code, details);
  if (!stream.destroyed && !stream.closed) stream.close(constants.NGHTTP2_NO_ERROR);
}

/** With a status and nothing else. */
function answer(stream: ServerHttp2Stream, code: status, details: string): void {
  if (stream.destroyed || stream.closed) return;
  if (!stream.headersSent) {
    const headers = {
      ":status": 200,
      "content-type": "application/grpc+proto",
      "grpc-status": String(code),
      "grpc-message": encodeURI(details),
    };
    stream.respond(headers, { endStream: true });
  }
}

function isCompressed(headers: IncomingHttpHeaders): boolean {
  return (headers["grpc-encoding"] ?? "identity") !== "identity";
}

/**
 * grpc-js computes timeouts in 32 bits: one of 25 days (a long grace period of a pod) would be negative or short. The
 * longest that its timers can hold stands in for it. Answers what is wrong with a timeout that is none.
 */
function readTimeout(headers: IncomingHttpHeaders): string | undefined {
  const given = headers["grpc-timeout"];
  if (given === undefined) return undefined;
  const timeout = /^(\d{1,8})([HMSmun])$/.exec(String(given));
  if (timeout === null) return "the header grpc-timeout is malformed";
  const secondsPerUnit = { H: 3600, M: 60, S: 1 }[timeout[2] ?? ""] ?? 0;
  if (Number(timeout[1]) * secondsPerUnit > longestTimeoutSeconds) {
    headers["grpc-timeout"] = `${String(longestTimeoutSeconds)}S`;
  }
  return undefined;
}

const longestTimeoutSeconds = 2_147_483;
