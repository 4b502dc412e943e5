/** The OCI runtime in front of runc, by which containers get what Docker's API has no words for. */
import type { NodeFacts } from "../../domain/node-facts.js";

/** `checking`: it is registered, and a container is just finding out whether it works. */
export type OciRuntimeState = "works" | "checking" | { readonly problem: string };

export interface OciRuntime {
  /** What is known now. Begins to find out what is not. */
  state(facts: NodeFacts): OciRuntimeState;
  /** Finds out once per engine. Rejects only with the reason of `signal`. */
  find(facts: NodeFacts, signal: AbortSignal): Promise<Exclude<OciRuntimeState, "checking">>;
}
