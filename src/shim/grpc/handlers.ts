/** The form in which RPCs plug into the server. */
import type { Call } from "../../lib/call.js";
import type { RequestSubject } from "./request-subject.js";

/** A Buffer is encoded already. Waits for the client; throws the reason of the call's signal. */
export type Send<Message extends object = object> = (message: Message) => Promise<void>;

/** One RPC of either API version: their messages are the same on the wire. */
export interface Rpc {
  /** Validates and answers. A Buffer is encoded already. A server stream ends when the promise settles. */
  readonly handle: (request: object, call: Call, send: Send) => Promise<unknown>;
  /** Changes nothing. Such RPCs come many times a second, so they are logged at debug only. */
  readonly readOnly: boolean;
  readonly subject: (request: object) => RequestSubject;
}

/** By name, such as `StopContainer`. Each other RPC of the protocol answers UNIMPLEMENTED. */
export type Rpcs = ReadonlyMap<string, Rpc>;
