import type { ShimError } from "../../lib/errors.js";
import type { NodeFacts } from "../../domain/node-facts.js";
import type { Snapshot } from "../../domain/snapshot.js";

/** What `StateSync` tells those who subscribe, one after the other in the order of their subscriptions. */
export interface SyncSubscriber {
  /**
   * After each connect, before the model is live. A throw or a timeout is a failed connect; after the timeout
   * it must not change anything.
   */
  engineConnected?(facts: NodeFacts, signal: AbortSignal): Promise<void>;
  /** For each failed connect and each broken link; decides whether to try again. */
  connectFailed?(error: ShimError): "stop" | "retry";
  /** Each time that the model becomes live. */
  engineLive?(facts: NodeFacts): void;
  /** After each further comparison with the engine's list. */
  engineCompared?(): void;
  /** For each image event. */
  imagesChanged?(): void;
  /** A container that is not part of a pod was created or removed. */
  otherContainersChanged?(): void;
  /**
   * With the result of an inspect before the read model has it; undefined: the container was removed. Delays
   * only that container. Must end by itself and never throw.
   */
  beforeChange?(id: string, snapshot: Snapshot | undefined): Promise<void>;
  /**
   * After each inspect of a container of a pod; `snapshot` is undefined when it was removed. Unlike
   * `ReadModel.onChange`, also for sandboxes that are hidden.
   */
  inspected?(id: string, snapshot: Snapshot | undefined): void;
}
