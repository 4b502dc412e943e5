/** The form in which RPCs plug into the server. */
import type { Call } from "../lib/call.js";
import type { Answer, ImageService, RuntimeService } from "../domain/cri.js";

interface Rpc {
  readonly request: unknown;
  readonly response: unknown;
  readonly stream: boolean;
}

/** Answers one call. A Buffer is an answer that is already encoded. */
export type UnaryHandler<R extends Rpc> = (
  request: R["request"],
  call: Call,
) => Promise<Answer<R["response"]> | Buffer>;

/**
 * Answers one call with any number of messages; the stream ends when the promise settles. `send` waits while the
 * client does not read, and throws the reason of the call's signal when that aborts.
 */
export type StreamHandler<R extends Rpc> = (
  request: R["request"],
  call: Call,
  send: (message: Answer<R["response"]> | Buffer) => Promise<void>,
) => Promise<void>;

export type Handler<R extends Rpc> = R["stream"] extends true ? StreamHandler<R> : UnaryHandler<R>;

/** Handlers by RPC name; what is left out answers UNIMPLEMENTED. */
export type ServiceHandlers<Service> = {
  readonly [Name in keyof Service]?: Service[Name] extends Rpc ? Handler<Service[Name]> : never;
};

/** One table for both API versions: their messages are the same on the wire. */
export interface Handlers {
  readonly RuntimeService: ServiceHandlers<RuntimeService>;
  readonly ImageService: ServiceHandlers<ImageService>;
}
