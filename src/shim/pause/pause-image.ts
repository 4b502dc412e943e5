/** Which pause image a sandbox is created from, and that the engine has it. */
import { formatDuration } from "../../lib/abort.js";
import { isKind, messageOf, ShimError } from "../../lib/errors.js";
import type { Logger } from "../../lib/log.js";
import { SingleFlight } from "../../lib/sync/single-flight.js";
import { normalizeReference } from "../../domain/image-reference.js";
import { buildImageArchive } from "./image-archive.js";
import { imageArchitecture, readProgram } from "../native/programs.js";
import { portForwardEntry } from "./port-forward-program.js";

/** The parts of the engine, the clock and the log that this uses. */
export interface PauseImageDeps {
  /** Undefined: no such image. */
  inspectImage(reference: string, signal: AbortSignal): Promise<{ readonly id: string } | undefined>;
  /** Pulls with the node's credentials. Ends by itself when there is no progress. */
  pull(reference: string, signal: AbortSignal): Promise<void>;
  loadImage(archive: Buffer, signal: AbortSignal): Promise<void>;
  /** The engine's: `amd64` or `x86_64`, … Read when the built-in image is loaded, so it may be a getter. */
  readonly architecture: string;
  /** Milliseconds of a clock that never goes back. */
  now(): number;
  readonly log: Pick<Logger, "info" | "warn">;
}

export interface PauseImageOptions {
  /** The configured pause image. */
  readonly reference: string;
  /** Whether the built-in image may stand in for a configured one that cannot be pulled. */
  readonly builtin: "fallback" | "forbidden";
}

const pullFailureMemoryMs = 60_000;

interface PullFailure {
  readonly error: ShimError;
  readonly untilMs: number;
}

/**
 * The configured image where the engine has it or can pull it, else the built-in one. A failed pull is
 * remembered for a minute, so that pod starts on a host without a registry do not wait for it each time; a
 * good answer is remembered until `invalidate`, so that pod starts cost no engine call for it (the answer
 * "built-in" for no longer than the failure behind it).
 */
export class PauseImages {
  readonly #deps: PauseImageDeps;
  readonly #options: PauseImageOptions;
  readonly #flights = new SingleFlight<string>();
  readonly #pinned: ReadonlySet<string>;
  #known: { readonly reference: string; readonly untilMs: number } | undefined;
  #pullFailure: PullFailure | undefined;
  /** Counts invalidations: an answer found before one must not be remembered after it. */
  #generation = 0;
  #inUse: string | undefined;

  constructor(deps: PauseImageDeps, options: PauseImageOptions) {
    this.#deps = deps;
    this.#options = options;
    this.#pinned = new Set([options.reference, builtinPauseReference].map(normalizeReference));
  }

  /**
   * To create sandboxes from. Callers share the work, cancelled when the last one leaves. Errors read `ensure
   * pause image "x": …` and have the kind of the inspect or pull.
   */
  async ensure(signal: AbortSignal): Promise<string> {
    signal.throwIfAborted();
    if (this.#known !== undefined && this.#deps.now() < this.#known.untilMs) return this.#known.reference;
    return this.#flights.run("ensure pause image", signal, (shared) => this.#find(shared));
  }

  /**
   * Forgets which image is there. To be called when a create answers "no such image", and for image events:
   * after `delete` and `untag` the image may be gone, after `load`, `pull` and `tag` the configured one may
   * have come. A failed pull stays remembered.
   */
  invalidate(): void {
    this.#known = undefined;
    this.#generation += 1;
  }

  /** Whether one of an image's names (tags, digests, id; any spelling) is that of a pause image. */
  isPinned(references: readonly string[]): boolean {
    return references.some((reference) => this.#pinned.has(normalizeReference(reference)));
  }

  async #find(signal: AbortSignal): Promise<string> {
    const action = `ensure pause image "${this.#options.reference}"`;
    const generation = this.#generation;
    try {
      const failure = await this.#findConfigured(signal);
      const reference = failure === undefined ? this.#options.reference : builtinPauseReference;
      if (failure !== undefined) await this.#useBuiltin(failure, signal);
      this.#noteUse(reference, failure);
      if (generation === this.#generation) this.#known = { reference, untilMs: failure?.untilMs ?? Infinity };
      return reference;
    } catch (error) {
      throw ShimError.from(error).within(action, { image: this.#options.reference });
    }
  }

  /** Undefined when the engine has the configured image now, else why it could not be pulled. */
  async #findConfigured(signal: AbortSignal): Promise<PullFailure | undefined> {
    const { reference } = this.#options;
    if ((await this.#deps.inspectImage(reference, signal)) !== undefined) {
      this.#pullFailure = undefined;
      return undefined;
    }
    if (this.#pullFailure !== undefined && this.#deps.now() < this.#pullFailure.untilMs)
      return this.#pullFailure;
    if (normalizeReference(reference) === builtinPauseReference) {
      await this.#loadBuiltin(signal);
      return undefined;
    }
    const startMs = this.#deps.now();
    try {
      await this.#deps.pull(reference, signal);
    } catch (error) {
      // The callers left, or the engine did: that says nothing about the registry.
      if (signal.aborted || isEngineFault(error)) throw error;
      const untilMs = this.#deps.now() + pullFailureMemoryMs;
      this.#pullFailure = { error: ShimError.from(error), untilMs };
      return this.#pullFailure;
    }
    this.#pullFailure = undefined;
    this.#deps.log.info({ image: reference, ms: this.#deps.now() - startMs }, "pause image pulled");
    return undefined;
  }

  /** Makes the built-in image available in place of the configured one, or throws why neither is. */
  async #useBuiltin(failure: PullFailure, signal: AbortSignal): Promise<void> {
    if (this.#options.builtin === "forbidden") throw failure.error;
    try {
      if ((await this.#deps.inspectImage(builtinPauseReference, signal)) !== undefined) return;
      await this.#loadBuiltin(signal);
    } catch (error) {
      if (signal.aborted) throw error;
      const message = `${failure.error.message}; use built-in image "${builtinPauseReference}": ${messageOf(error)}`;
      throw new ShimError(failure.error.kind, message, failure.error.fields, {
        cause: new AggregateError([failure.error, error]),
      });
    }
  }

  async #loadBuiltin(signal: AbortSignal): Promise<void> {
    const { archive } = await builtinPauseImage(this.#deps.architecture);
    await this.#deps.loadImage(archive, signal);
    this.#deps.log.info({ image: builtinPauseReference }, "built-in pause image loaded");
  }

  /** One line when another image is used than before. */
  #noteUse(reference: string, failure: PullFailure | undefined): void {
    if (this.#inUse === reference) return;
    const first = this.#inUse === undefined;
    this.#inUse = reference;
    const image = this.#options.reference;
    if (failure !== undefined) {
      const retry = formatDuration(pullFailureMemoryMs);
      const why = { image, builtin: builtinPauseReference, err: failure.error.message, retry };
      this.#deps.log.warn(why, "pause image cannot be pulled, using the built-in one");
    } else if (!first) {
      this.#deps.log.info({ image }, "using the configured pause image again");
    }
  }
}

/** The engine itself was out of reach, which passes; what it says of a registry is marked as such. */
function isEngineFault(error: unknown): boolean {
  return isKind(error, "unavailable") && error.fields["from"] !== "registry";
}

/** An engine that has it is not given it again: whatever changes the image must change the tag. */
export const builtinPauseReference = "dockershim.local/pause:3";

export interface BuiltinImage {
  readonly reference: string;
  /** For `POST /images/load`. */
  readonly archive: Buffer;
}

/** Named as Go or the kernel does. `unsupported` without a program, `internal` when it is missing. */
export async function builtinPauseImage(architecture: string): Promise<BuiltinImage> {
  const known = imageArchitecture(architecture);
  if (known === undefined) {
    throw new ShimError(
      "unsupported",
      `build pause image: no built-in one for architecture "${architecture}"`,
    );
  }
  const archive = await buildImageArchive({
    reference: builtinPauseReference,
    architecture: known,
    config: {
      Entrypoint: ["/pause"],
      // As the pause images of Kubernetes. It suffices: a process may wait for any child of its own, and
      // orphans are handed to PID 1 as children whatever their user; signals come from root. A pod's
      // run_as_user overrides it.
      User: "65535:65535",
      // No labels: Docker copies an image's labels to its containers, as if they were the pod's.
    },
    layers: [
      [
        { path: "pause", type: "file", mode: 0o755, content: readProgram("pause", known) },
        // Not used by the pause container itself: an exec in it leads into a pod of a remote engine.
        portForwardEntry(known),
      ],
    ],
  });
  return { reference: builtinPauseReference, archive };
}
