/** Connects the methods of the CRI with their handlers. */
import { orAbort } from "../../lib/abort.js";
import type { Call } from "../../lib/call.js";
import { messageOf, ShimError } from "../../lib/errors.js";
import type { Logger } from "../../lib/log.js";
import type { Rpc, Rpcs } from "./handlers.js";
import type { Instrument, Outcome } from "./instrument.js";
import { UndecodableRequest, type Method } from "./codec/method.js";
import { type GrpcStream, largestMessageBytes } from "./http2/grpc-stream.js";
import { status } from "./status.js";

/** Answers a request; `message` is all of its message. */
export type Dispatch = (stream: GrpcStream, message: Buffer) => void;

/** Calls the handler that `rpcs` has of each of `methods`; any other call is answered with UNIMPLEMENTED. */
export function dispatcher(
  methods: readonly Method[],
  { rpcs, instrument, log }: { rpcs: Rpcs; instrument: Instrument; log: Logger },
): Dispatch {
  const byPath = new Map(methods.map((method) => [method.path, method]));
  return (stream, message) => {
    const method = byPath.get(stream.path);
    if (method === undefined) {
      stream.finish({ code: status.UNIMPLEMENTED, details: `there is no method ${stream.path}` });
      return;
    }
    const { name, responseStream: isStream } = method;
    const rpc = rpcs.get(name);
    const request = decode(method, message);
    const answer = isStream ? answerStream : answerOnce;
    const handle =
      rpc === undefined ? undefined : (call: Call) => answer(rpc, { method, request, call, stream });
    instrument
      .run(stream, { name, rpc, request, handle, isStream })
      .then((outcome: Outcome<Buffer | undefined>) => {
        if (outcome.ok) stream.finish({ code: status.OK }, outcome.value);
        else stream.finish(outcome.status);
      })
      .catch((error: unknown) => {
        log.error({ rpc: name, err: messageOf(error) }, "cannot send a response");
      });
  };
}

interface Request {
  readonly method: Method;
  readonly request: object;
  readonly call: Call;
  readonly stream: GrpcStream;
}

/** The encoded answer of a unary call. */
async function answerOnce({ handle }: Rpc, { method, request, call }: Request): Promise<Buffer | undefined> {
  return encode(method, (await handle(request, call, noStream)) as object);
}

/** Sends the messages of a server stream, each when there is room: for a cancelled call its signal ends the wait. */
async function answerStream({ handle }: Rpc, { method, request, call, stream }: Request): Promise<undefined> {
  await handle(request, call, async (message) => {
    const bytes = encode(method, message);
    call.signal.throwIfAborted();
    await orAbort(stream.write(bytes), call.signal);
  });
}

function noStream(): Promise<void> {
  return Promise.reject(new ShimError("internal", "a unary call has one answer"));
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
