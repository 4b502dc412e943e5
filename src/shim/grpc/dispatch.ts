/** Connects the methods of the CRI with their handlers in the terms of grpc-js. */
import {
  status,
  type handleServerStreamingCall,
  type handleUnaryCall,
  type Server,
  type ServerWritableStream,
} from "@grpc/grpc-js";
import { orAbort } from "../../lib/abort.js";
import type { Call } from "../../lib/call.js";
import { messageOf, ShimError } from "../../lib/errors.js";
import type { Logger } from "../../lib/log.js";
import type { Rpc, Rpcs } from "./handlers.js";
import type { Instrument } from "./instrument.js";
import { UndecodableRequest, type Method } from "./codec/method.js";

/** What kubelets and crictl accept, and what this server does. */
export const largestMessageBytes = 16 * 1024 * 1024;

/** Registers `method` at `server`; it answers UNIMPLEMENTED when `rpcs` does not have it. */
export function registerMethod(
  server: Server,
  method: Method,
  { rpcs, instrument, log }: { rpcs: Rpcs; instrument: Instrument; log: Logger },
): void {
  const listenerOf = method.responseStream ? streamListener : unaryListener;
  server.register<object, Buffer>(
    method.path,
    listenerOf(method, rpcs.get(method.name), instrument, log),
    (bytes) => bytes, // Answers are encoded before, where an error is still logged and classified.
    (bytes) => decode(method, bytes),
    method.responseStream ? "serverStream" : "unary",
  );
}

function unaryListener(
  method: Method,
  rpc: Rpc | undefined,
  instrument: Instrument,
  log: Logger,
): handleUnaryCall<object, Buffer> {
  return (incoming, answer) => {
    const { request } = incoming;
    const handle =
      rpc === undefined
        ? undefined
        : async (call: Call): Promise<Buffer> =>
            encode(method, (await rpc.handle(request, call, noStream)) as object);
    instrument
      .run(incoming, { name: method.name, rpc, request, handle, isStream: false })
      .then((outcome) => {
        if (outcome.ok) answer(null, outcome.value);
        else answer(outcome.status);
      })
      .catch((error: unknown) => {
        log.error({ rpc: method.name, err: messageOf(error) }, "cannot send a response");
      });
  };
}

function streamListener(
  method: Method,
  rpc: Rpc | undefined,
  instrument: Instrument,
  log: Logger,
): handleServerStreamingCall<object, Buffer> {
  return (incoming) => {
    const { request } = incoming;
    const handle =
      rpc === undefined
        ? undefined
        : (call: Call): Promise<unknown> =>
            rpc.handle(request, call, (message) => write(incoming, encode(method, message), call.signal));
    instrument
      .run(incoming, { name: method.name, rpc, request, handle, isStream: true })
      .then((outcome) => {
        if (outcome.ok) incoming.end();
        // grpc-js takes the status of a stream from an error event with code and details.
        else incoming.emit("error", outcome.status);
      })
      .catch((error: unknown) => {
        log.error({ rpc: method.name, err: messageOf(error) }, "cannot close a stream");
      });
  };
}

function noStream(): Promise<void> {
  return Promise.reject(new ShimError("internal", "a unary call has one answer"));
}

/**
 * Resolves when the message has left; for a cancelled call that never happens, so its signal ends the wait.
 */
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
    const sizes = `${bytes.length} bytes, at most ${largestMessageBytes} are allowed`;
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
