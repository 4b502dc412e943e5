/** Whether the engine has the OCI runtime, and whether it works. */
import { randomBytes } from "node:crypto";
import type { NodeFacts } from "../../domain/node-facts.js";
import { ociRuntimeName } from "../../domain/oci-changes.js";
import { orAbort } from "../../lib/abort.js";
import { messageOf } from "../../lib/errors.js";
import type { Logger } from "../../lib/log.js";
import type { OciRuntime, OciRuntimeState } from "../ports/host.js";

export const notRegistered =
  `the engine has no runtime ${JSON.stringify(ociRuntimeName)}: ` +
  '"dockershim install --oci-runtime", or the lines for daemon.json in docs/run/oci-runtime.md';

/** Begin of the name of the program that the container which finds out is to run, and no image has. */
const trialProgram = "dockershim-trial-";

export interface RegisteredRuntimeDeps {
  /** Makes sure that questions are answered. */
  readonly listen: () => Promise<void>;
  /** Starts a container that is made to run this program. Rejects with the engine's error. */
  readonly startTrial: (program: string) => Promise<void>;
  readonly log: Pick<Logger, "info" | "warn">;
  readonly now: () => number;
  /** Until a runtime that did not work is tried again, milliseconds; one minute unless given. */
  readonly retryMs?: number;
  /** How long a call waits to find out; 10 s unless given. What has another way takes that then. */
  readonly waitMs?: number;
}

interface Finding {
  readonly engineId: string;
  readonly atMs: number;
  readonly result: Promise<Found>;
  state: OciRuntimeState;
}

type Found = Exclude<OciRuntimeState, "checking">;

export class RegisteredRuntime implements OciRuntime {
  #finding: Finding | undefined;

  constructor(private readonly deps: RegisteredRuntimeDeps) {}

  state(facts: NodeFacts): OciRuntimeState {
    return this.#found(facts)?.state ?? { problem: notRegistered };
  }

  async find(facts: NodeFacts, signal: AbortSignal): Promise<Found> {
    const finding = this.#found(facts);
    if (finding === undefined) return { problem: notRegistered };
    const late = new AbortController();
    const timer = setTimeout(() => {
      late.abort();
    }, this.deps.waitMs ?? 10_000);
    try {
      return await orAbort(finding.result, AbortSignal.any([signal, late.signal]));
    } catch (error) {
      signal.throwIfAborted();
      if (!late.signal.aborted) throw error;
      return doesNotWork("whether it does is still being found out");
    } finally {
      clearTimeout(timer);
    }
  }

  /** Undefined where it is not registered. */
  #found({ engineId, runtimes }: NodeFacts): Finding | undefined {
    if (!runtimes.some(({ name }) => name === ociRuntimeName)) {
      this.#finding = undefined;
      return undefined;
    }
    const { now, retryMs = 60_000 } = this.deps;
    const known = this.#finding;
    const isStale = typeof known?.state === "object" && now() - known.atMs >= retryMs;
    if (known?.engineId === engineId && !isStale) return known;
    const finding: Finding = { engineId, atMs: now(), result: this.#try(), state: "checking" };
    void finding.result.then((state) => {
      finding.state = state;
    });
    return (this.#finding = finding);
  }

  /** Only runc itself, with the specification that this program has changed, can miss a program of that name. */
  async #try(): Promise<Found> {
    const { listen, startTrial, log } = this.deps;
    const program = `${trialProgram}${randomBytes(8).toString("hex")}`;
    try {
      await listen();
      await startTrial(program);
      return this.#doesNot("it runs containers without asking this program");
    } catch (error) {
      if (!messageOf(error).includes(program)) return this.#doesNot(messageOf(error));
      log.info({ runtime: ociRuntimeName }, "the OCI runtime of containers beyond Docker's API works");
      return "works";
    }
  }

  #doesNot(reason: string): Found {
    this.deps.log.warn({ runtime: ociRuntimeName, err: reason }, "the OCI runtime does not work");
    return doesNotWork(reason);
  }
}

function doesNotWork(reason: string): Found {
  return { problem: `the engine's runtime ${JSON.stringify(ociRuntimeName)} does not work: ${reason}` };
}
