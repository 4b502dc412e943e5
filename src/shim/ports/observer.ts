/**
 * Receives the end of everything that is timed: RPCs, engine calls, network operations and runs of CNI
 * plugins. Implemented by src/shim/metrics; without the endpoint of metrics there is no observer.
 */
import type { ErrorKind } from "../../lib/errors.js";
import type { Engine } from "./engine.js";

/** A method must neither throw nor wait: it runs on the way of the call that it is told of. */
export interface Observer {
  rpcEnded(ended: RpcEnded): void;
  engineCallEnded(ended: EngineCallEnded): void;
  networkOperationEnded(ended: NetworkOperationEnded): void;
  pluginRunEnded(ended: PluginRunEnded): void;
  unknownFieldSeen(seen: UnknownFieldSeen): void;
}

/** A request of a newer client. All of them are "other" for those beyond the hundred that are told apart. */
export interface UnknownFieldSeen {
  readonly rpc: string;
  readonly message: string;
  /** Its number. */
  readonly field: string;
}

export interface RpcEnded {
  /** A method of the CRI, and nothing else. */
  readonly rpc: string;
  /** `OK`, `NOT_FOUND` … */
  readonly code: string;
  readonly ms: number;
}

export interface EngineCallEnded {
  readonly verb: keyof Engine;
  /** For `events` until the subscription ended. */
  readonly ms: number;
  /** Missing for a success; "not there" in an answer's own words is one. */
  readonly kind?: ErrorKind;
}

export interface NetworkOperationEnded {
  readonly operation: "setUpPod" | "tearDownPod" | "podAddresses";
  /** With the wait for other work on the same pod. */
  readonly ms: number;
  readonly failed: boolean;
}

export interface PluginRunEnded {
  /** As the network list names it: `bridge`. */
  readonly type: string;
  readonly command: "ADD" | "DEL" | "CHECK" | "GC" | "STATUS" | "VERSION";
  readonly durationMs: number;
  readonly failed: boolean;
}
