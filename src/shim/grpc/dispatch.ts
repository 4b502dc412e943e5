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
import type { IncomingCall, Instrument, Outcome } from "./instrument.js";
import { UndecodableRequest, type Method } from "./codec/method.js";

/** What kubelets and crictl accept, and what this server does. */
export const largestMessageBytes = 16 * 1024 * 1024;

/** Registers `method` at `server`; it answers UNIMPLEMENTED when `rpcs` does not have it. */
export function registerMethod(
  server: Server,
  method: Method,
  { rpcs, instrument, log }: { rpcs: Rpcs; instrument: Instrument; log: Logger },
): void {
  const { name, responseStream: isStream } = method;
  const rpc = rpcs.get(name);
  /** Runs a call, and answers by `respond`. */
  const run = <T>(
    incoming: IncomingCall & { readonly request: object },
    work: (rpc: Rpc, call: Call) => Promise<T>,
    respond: (outcome: Outcome<T>) => void,
  ): void => {
    const { request } = incoming;
    const handle = rpc === undefined ? undefined : (call: Call) => work(rpc, call);
    instrument
      .run(incoming, { name, rpc, request, handle, isStream })
      .then(respond)
      .catch((error: unknown) => {
        const action = isStream ? "cannot close a stream" : "cannot send a response";
        log.error({ rpc: name, err: messageOf(error) }, action);
      });
  };
  const unary: handleUnaryCall<object, Buffer> = (incoming, answer) => {
    run(
      incoming,
      async ({ handle }, call) => encode(method, (await handle(incoming.request, call, noStream)) as object),
      (outcome) => {
        if (outcome.ok) answer(null, outcome.value);
        else answer(outcome.status);
      },
    );
  };
  const stream: handleServerStreamingCall<object, Buffer> = (incoming) => {
    run(
      incoming,
      ({ handle }, call) =>
        handle(incoming.request, call, (message) => write(incoming, encode(method, message), call.signal)),
      (outcome) => {
        if (outcome.ok) incoming.end();
        // grpc-js takes the status of a stream from an error event with code and details.
        else incoming.emit("error", outcome.status);
      },
    );
  };
  server.register<object, Buffer>(
    method.path,
    isStream ? stream : unary,
    (bytes) => bytes, // Answers are encoded before, where an error is still logged and classified.
    (bytes) => decode(method, bytes),
    isStream ? "serverStream" : "unary",
  );
}

function noStream(): Promise<void> {
  return Promise.reject(new ShimError("internal", "a unary call has one answer"));
}

/** Resolves when the message has left, which never happens for a cancelled call: its signal ends the wait. */
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
