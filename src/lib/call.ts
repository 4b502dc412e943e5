/** The context of one CRI call or background task, known to the log lines of its engine calls. */
import { AsyncLocalStorage } from "node:async_hooks";
import type { Logger } from "./log.js";

export interface Call {
  /** Name of the RPC (`RunPodSandbox`) or background task (`resync`). */
  readonly rpc: string;
  /** Aborts when the caller left or its deadline passed. */
  readonly signal: AbortSignal;
  readonly log: Logger;
  /** `namespace/name` of the pod, once it is known. */
  pod?: string;
  /** What the call is about, filled in while it runs. Undefined when no subscriber hears of its end. */
  readonly subject?: CallSubject;
  /** All calls of the server that were not answered yet, the oldest first, without streams. */
  readonly underWay?: () => readonly CallUnderWay[];
}

export interface CallSubject {
  /** `namespace/name` */
  pod?: string;
  podUid?: string;
  sandboxId?: string;
  containerId?: string;
  /** As the pod names it. */
  containerName?: string;
  image?: string;
  /** Of what ExecSync ran. */
  exitCode?: number;
}

/** For verbose Status. */
export interface CallUnderWay {
  readonly rpc: string;
  /** `namespace/name`, where the call names a pod. */
  readonly pod?: string;
  readonly ms: number;
  /** With ages; empty while this program is at work. */
  readonly waitsFor: readonly string[];
}

const storage = new AsyncLocalStorage<Call>();

/**
 * Runs `work` so that `currentCall()` answers `call` in it, if the log of `call` has debug lines: on Node.js
 * before 24 a stored value makes every promise of the process slower.
 */
export function runInCall<T>(call: Call, work: () => T): T {
  return call.log.isLevelEnabled("debug") ? storage.run(call, work) : work();
}

/** The call on whose behalf the present code runs, for debug lines only: behaviour takes `Call` as an argument. */
export function currentCall(): Call | undefined {
  return storage.getStore();
}
