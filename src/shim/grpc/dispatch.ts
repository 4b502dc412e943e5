/** Connects the methods of the CRI with their handlers in the terms of grpc-js. */
import {
  status,
  type handleServerStreamingCall,
  type handleUnaryCall,
  type Server,
  type ServerWritableStream,
} from "@grpc/grpc-js";
import { orAbort } from "../lib/abort.js";
import type { Call } from "../lib/call.js";
import { messageOf, ShimError } from "../lib/errors.js";
import type { Logger } from "../lib/log.js";
import type { Handlers, StreamHandler, UnaryHandler } from "./handlers.js";
import type { Instrument } from "./instrument.js";
import { UndecodableRequest, type Method } from "./codec/proto.js";

/** What kubelets and crictl accept, and what this server does. */
export const largestMessageBytes = 16 * 1024 * 1024;

interface AnyRpc {
  readonly request: unknown;
  readonly response: object;
  readonly stream: boolean;
}

/** Registers `method`, with its handler from `handlers` or without, at `server`. */
export function registerMethod(
  server: Server,
  method: Method,
  { handlers, instrument, log }: { handlers: Handlers; instrument: Instrument; log: Logger },
): void {
  const table: Readonly<Record<string, unknown>> = handlers[method.service];
  const handler = Object.hasOwn(table, method.name) ? table[method.name] : undefined;
  // The types of the handlers table tie names to requests; here all requests are alike.
  const listener = method.responseStream
    ? streamListener(method, handler as StreamHandler<AnyRpc> | undefined, instrument, log)
    : unaryListener(method, handler as UnaryHandler<AnyRpc> | undefined, instrument, log);
  server.register<object, Buffer>(
    method.path,
    listener,
    (bytes) => bytes, // Answers are encoded before, where an error is still logged and classified.
    (bytes) => decode(method, bytes),
    method.responseStream ? "serverStream" : "unary",
  );
}

function unaryListener(
  method: Method,
  handler: UnaryHandler<AnyRpc> | undefined,
  instrument: Instrument,
  log: Logger,
): handleUnaryCall<object, Buffer> {
  return (incoming, answer) => {
    const { request } = incoming;
    const handle =
      handler === undefined
        ? undefined
        : async (call: Call): Promise<Buffer> => encode(method, await handler(request, call));
    instrument
      .run(incoming, { rpc: method.name, request, handle, isStream: false })
      .then((outcome) => {
        if (outcome.ok) answer(null, outcome.value);
        else answer(outcome.status);
      })
      .catch((error: unknown) => {
        log.error({ rpc: method.name, err: messageOf(error) }, "an answer was not sent");
      });
  };
}

function streamListener(
  method: Method,
  handler: StreamHandler<AnyRpc> | undefined,
  instrument: Instrument,
  log: Logger,
): handleServerStreamingCall<object, Buffer> {
  return (incoming) => {
    const { request } = incoming;
    const handle =
      handler === undefined
        ? undefined
        : (call: Call): Promise<void> =>
            handler(request, call, (message) => write(incoming, encode(method, message), call.signal));
    instrument
      .run(incoming, { rpc: method.name, request, handle, isStream: true })
      .then((outcome) => {
        if (outcome.ok) incoming.end();
        // grpc-js takes the status of a stream from an error event with code and details.
        else incoming.emit("error", outcome.status);
      })
      .catch((error: unknown) => {
        log.error({ rpc: method.name, err: messageOf(error) }, "a stream was not ended");
      });
  };
}

/** Resolves when the message has left; for a cancelled call that never happens, so its signal ends the wait. */
async function write(
  stream: ServerWritableStream<object, Buffer>,
  bytes: Buffer,
  signal: AbortSignal,
): Promise<void> {
  signal.throwIfAborted();
  const written = new Promise<void>((resolve, reject) => {
    stream.write(bytes, (error: Error | null | undefined) => {
      if (error) reject(error);
      else resolve();
    });
  });
  await orAbort(written, signal);
}

function encode(method: Method, answer: object): Buffer {
  const bytes = Buffer.isBuffer(answer) ? answer : method.encodeResponse(answer);
  if (bytes.length > largestMessageBytes) {
    const sizes = `${String(bytes.length)} bytes, at most ${String(largestMessageBytes)} are allowed`;
    throw new ShimError("exhausted", `${method.name}: the answer is too large: ${sizes}`);
  }
  return bytes;
}

function decode(method: Method, bytes: Buffer): object {
  try {
    return method.decodeRequest(bytes);
  } catch (error) {
    return new UndecodableRequest(ShimError.from(error, "invalid"));
  }
}

export const noMessage = { code: status.INVALID_ARGUMENT, details: "the call contains no request message" };
export const secondMessage = {
  code: status.INVALID_ARGUMENT,
  details: "the call contains more than one request message",
};
