/** What the pages show; the parts of the program have these properties. Reading it makes no request of the engine. */
import type { CallUnderWay } from "../../lib/call.js";
import type { ShimError } from "../../lib/errors.js";
import type { Container } from "../../domain/container.js";
import type { NodeFacts } from "../../domain/node-facts.js";
import type { Sandbox } from "../../domain/sandbox.js";
import type { Explanation } from "../../history/explain.js";
import type { RecentCalls } from "./recent-calls.js";

export interface PageSources {
  /** Of this program. */
  readonly version: string;
  readonly nodeVersion: string;
  /** When this process began; as all times here, in milliseconds since the Unix epoch. */
  readonly startedAtMs: number;
  readonly now: () => number;
  /** As Status has them. */
  readonly conditions: () => readonly Condition[];
  readonly link: {
    readonly state:
      | { readonly phase: "live" | "recovering" }
      | { readonly phase: "lost"; readonly reason: Pick<ShimError, "message"> };
    readonly sinceMs: number;
    readonly lastLoss: { readonly reason: Pick<ShimError, "message">; readonly atMs: number } | undefined;
    readonly facts: NodeFacts | undefined;
  };
  readonly model: {
    sandboxes(): Iterable<Sandbox>;
    containersOf(sandboxId: string): readonly Container[];
    snapshot(id: string): unknown;
    readonly unsynced: { readonly pending: number; readonly stale: number };
  };
  /** The time since the latest comparison with the engine; undefined before the first. */
  readonly comparedMsAgo: () => number | undefined;
  readonly network: { readonly name: string; readonly reason: string };
  /** Calls without an answer, the oldest first. */
  readonly underWay: () => readonly CallUnderWay[];
  /** By the uid of a pod; undefined without a record of it. Fails when the history cannot be read. */
  readonly why: ((podUid: string) => Promise<Explanation | undefined>) | undefined;
  readonly recent: Pick<RecentCalls, "slowest" | "failures">;
}

export interface Condition {
  readonly type: string;
  readonly status: boolean;
  readonly reason: string;
  readonly message: string;
}
