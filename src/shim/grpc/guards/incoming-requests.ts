/**
 * What is done about each request before the gRPC library handles it: requests that never become complete cost a bounded
 * amount of memory for a bounded time, and headers that the library takes wrongly are put right or refused.
 */
import { status } from "@grpc/grpc-js";
import {
  constants,
  type Http2Server,
  type Http2Session,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from "node:http2";
import { GuardedConnection } from "./guarded-connection.js";
import { Sender, UnfinishedRequests, type IncomingLimits } from "./unfinished-requests.js";

export type { IncomingLimits } from "./unfinished-requests.js";

/** Kubelets send their messages at once, with the headers. */
export const defaultLimits: IncomingLimits = {
  patienceMs: 20_000,
  quietMs: 1_000,
  totalBytes: 64 * 1024 * 1024,
  freeBytes: 128 * 1024,
  // Four messages of the largest size, and what they cost besides.
  connectionBytes: 65 * 1024 * 1024,
};

const turnAwayMs = 1_000;

/** Looks at every request of `server` before the listeners that it has; what is turned away here never reaches them. */
export function guardRequests(server: Http2Server, limits: IncomingLimits = defaultLimits): void {
  const unfinished = new UnfinishedRequests(limits);
  const senders = sendersOf(server);

  function watch(stream: ServerHttp2Stream): void {
    const sender = stream.session === undefined ? undefined : senders.get(stream.session);
    if (sender === undefined) return;
    const request = unfinished.add(sender, (reason) => {
      stream.removeListener("data", onData);
      if (reason === "exhausted") {
        refuse(stream, status.RESOURCE_EXHAUSTED, "too many requests are not complete");
      } else {
        const seconds = String(Math.round(limits.patienceMs / 1000));
        refuse(stream, status.DEADLINE_EXCEEDED, `the request was not complete after ${seconds} s`);
      }
    });
    const onData = (chunk: Buffer): void => request.grow(chunk.length);
    const finish = (): void => {
      stream.removeListener("data", onData);
      request.finish();
    };
    stream.on("data", onData);
    stream.once("end", finish);
    stream.once("close", finish);
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

/** The connection behind each session: the library makes its session while it is given the connection. */
function sendersOf(server: Http2Server): WeakMap<Http2Session, Sender> {
  const senders = new WeakMap<Http2Session, Sender>();
  let arriving: GuardedConnection | undefined;
  server.prependListener("connection", (connection: unknown) => {
    arriving = connection instanceof GuardedConnection ? connection : undefined;
  });
  server.on("session", (session) => {
    if (arriving !== undefined) senders.set(session, new Sender(arriving));
    arriving = undefined;
  });
  return senders;
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
