import type { NetworkList } from "./configuration.js";

/** Exactly one of the two is there. */
export type NetworkState =
  | { readonly network: NetworkList; readonly problem?: undefined }
  | { readonly network?: undefined; readonly problem: string };

/** Where the network list comes from: a directory that administrators write to, or the program itself. */
export interface NetworkSource {
  /** Resolves when the first state is known, whatever it is. */
  start(signal: AbortSignal): Promise<void>;
  stop(): Promise<void>;
  /** What new pods get. */
  state(): NetworkState;
  /** The newest one that was ever valid, for pods of which nothing else is known. */
  lastGood(): NetworkList | undefined;
  /** Facts for verbose Status. */
  describe(): Readonly<Record<string, unknown>>;
}
