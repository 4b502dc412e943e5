/** Whether the present manifest of a pod was applied: what the caller of the pod's loop waits for. */
import { posix } from "node:path";
import { ShimError, messageOf } from "../../lib/errors.js";
import type { HostFiles } from "../node/files.js";
import { type Directories, logDirectory, logPath } from "../pod-config/pod-paths.js";
import type { Manifest } from "../manifests/read-manifests.js";
import { outputOf } from "../node/log-lines.js";
import {
  type ObservedContainer,
  type ObservedPod,
  describeExit,
  newestContainer,
} from "../pod-rules/observed-pod.js";
import { containerHash } from "../pod-config/hashes.js";
import type { PodStatus } from "../pod-rules/status-types.js";
import { isSidecar, restartsAfter } from "../pod-rules/restart-rules.js";
import type { StartFailure } from "./start-container.js";

export interface ApplicationInput {
  readonly manifest: Manifest;
  readonly observed: ObservedPod;
  readonly status: PodStatus;
  readonly failures: readonly StartFailure[];
}

/** Reasons of failures of the container's programs; it is restarted. */
const ownFailures: ReadonlySet<string> = new Set(["CrashLoopBackOff", "PostStartHookError"]);

/** `done`: each container was started once, or is restarted. Throws what cannot be started, or has failed. */
async function applicationState(
  { manifest, observed, status, failures }: ApplicationInput,
  deps: { readonly files: Pick<HostFiles, "readTail">; readonly directories: Directories },
): Promise<"pending" | "done"> {
  const { spec } = manifest.pod;
  const isOwn = ({ reason }: StartFailure): boolean => ownFailures.has(reason);
  const error = failures.find((failure) => failure.retryAt === undefined && !isOwn(failure));
  if (error !== undefined) throw error;
  for (const container of spec.initContainers ?? []) {
    const entry = newestContainer(observed, container.name);
    if (entry?.state !== "exited" || entry.exitCode === 0 || isSidecar(container)) continue;
    if (!restartsAfter(spec, container, entry.exitCode))
      throw await explained(`init container "${container.name}" failed`, entry, manifest, deps);
  }
  if (failures.some(isOwn)) return "done";
  if (status.phase === "Succeeded" || status.phase === "Failed") return "done";
  const sandbox = observed.sandboxes.find(({ isReady }) => isReady)?.id;
  const started = spec.containers.every((container) => {
    const entry = newestContainer(observed, container.name);
    const isCurrent = entry?.sandboxId === sandbox && entry?.hash === containerHash(container);
    return isCurrent && (entry.state === "running" || entry.state === "exited");
  });
  return started ? "done" : "pending";
}

const tailBytes = 16 * 1024;
const tailLines = 20;

/** The error for `reason`, with the termination message and the last output of the failed container. */
async function explained(
  reason: string,
  container: ObservedContainer,
  { key }: Manifest,
  { files, directories }: { readonly files: Pick<HostFiles, "readTail">; readonly directories: Directories },
): Promise<ShimError> {
  const path = posix.join(logDirectory(directories, key), logPath(container.name, container.attempt));
  let output: readonly string[];
  try {
    output = outputOf(await files.readTail(path, tailBytes)).slice(-tailLines);
  } catch (error) {
    output = [`(its log cannot be read: ${messageOf(error)})`];
  }
  const shown = output.map((line) => `\n  ${container.name}: ${line}`).join("");
  return new ShimError("precondition", `${reason}: ${describeExit(container)}${shown}`);
}

/** A promise that is settled from outside. */
class Outcome {
  resolve!: () => void;
  reject!: (reason: unknown) => void;
  readonly promise = new Promise<void>((resolve, reject) => {
    this.resolve = resolve;
    this.reject = reject;
  });

  constructor() {
    this.promise.catch(() => undefined); // Its caller may come later, or never.
  }
}

export class PodApplication {
  #outcome = new Outcome();
  #isSettled = false;
  #wasApplied = false;
  #hasFailed = false;

  constructor(private readonly options: { readonly failFast: boolean }) {}

  /** The outcome of the present manifest. */
  get outcome(): Promise<void> {
    return this.#outcome.promise;
  }

  /** With `failFast`: an error before the first success has ended the loop. */
  get hasFailed(): boolean {
    return this.#hasFailed;
  }

  /** There is another manifest. */
  renew(): void {
    if (!this.#isSettled) return;
    this.#outcome = new Outcome();
    this.#isSettled = false;
  }

  /** The loop has ended. */
  end(reason: unknown): void {
    if (!this.#isSettled) this.#outcome.reject(reason);
  }

  /** Rejects the outcome with the error. Answers whether it ends the loop. */
  fails(error: unknown): boolean {
    if (this.#isSettled) return false;
    this.#outcome.reject(error);
    this.#isSettled = true;
    this.#hasFailed = this.options.failFast && !this.#wasApplied;
    return this.#hasFailed;
  }

  /** After each turn of the loop. Throws an error that ends it. */
  async check(input: ApplicationInput, deps: Parameters<typeof applicationState>[1]): Promise<void> {
    if (this.#isSettled) return;
    try {
      if ((await applicationState(input, deps)) === "pending") return;
    } catch (error) {
      if (this.fails(error)) throw error;
      return;
    }
    this.#isSettled = true;
    this.#wasApplied = true;
    this.#outcome.resolve();
  }
}
