/** Read-only mounts with all mounts below them: who makes them. */
import type { Mount } from "../../domain/cri.js";
import { quote } from "../../domain/field-errors.js";
import type { NodeFacts } from "../../domain/node-facts.js";
import { ociRuntimeName } from "../../domain/oci-changes.js";
import { ShimError } from "../../lib/errors.js";
import { runtimeFacts, whyNoOciRuntime } from "./runtime-handler.js";

/** First API version that tells recursive and plain read-only apart; before, read-only is never recursive. */
export const readOnlyOptionsApiMinor = 44;

/** Of OCI specifications. */
export const recursiveOption = "rro";

export interface RecursiveContext {
  readonly facts: NodeFacts;
  /** Docker runtime of the pod, as `runc`; `""` is the engine's default. */
  readonly runtime: string;
  /** Why the OCI runtime cannot be used; undefined where it works. */
  readonly ociProblem?: string | undefined;
}

/** Whether Status may announce such mounts for a Docker runtime (`""`: the default). */
export function recursiveReadOnlyMounts(context: RecursiveContext): boolean {
  return typeof recursiveReadOnly(context) === "string";
}

/** Whether the OCI runtime may be asked for. */
export function mayNeedRuntimeForReadOnly(mount: Mount, { apiMinor }: NodeFacts): boolean {
  return mount.recursive_read_only && !isImage(mount) && apiMinor < readOnlyOptionsApiMinor;
}

function isImage({ image }: Mount): boolean {
  return image !== null && image.image !== "";
}

/** Who makes the mount so; undefined for a mount that is not to be. Throws `unsupported` where nothing can. */
export function requestedReadOnly(
  mount: Mount,
  field: string,
  context: RecursiveContext,
): "engine" | "ociRuntime" | undefined {
  // Nothing is mounted below an image.
  if (!mount.recursive_read_only || isImage(mount)) return undefined;
  const by =
    mount.selinux_relabel && context.facts.security.selinux
      ? { why: "cannot be combined with selinux_relabel" }
      : recursiveReadOnly(context);
  if (typeof by === "string") return by;
  // Kubelets compare the beginning of the text.
  const subject = `${field}.recursive_read_only of ${quote(mount.container_path)}`;
  throw new ShimError("unsupported", `RROUnsupported: ${subject}: ${by.why}`, {
    field: `${field}.recursive_read_only`,
  });
}

/** Needs mount_setattr of Linux 5.12, an OCI runtime that is known to use it, and words to say it in. */
function recursiveReadOnly({
  facts,
  runtime,
  ociProblem,
}: RecursiveContext): "engine" | "ociRuntime" | { readonly why: string } {
  if (!kernelAtLeast(facts.kernelVersion, 5, 12))
    return { why: `needs Linux 5.12, the node runs ${facts.kernelVersion}` };
  if (facts.apiMinor >= readOnlyOptionsApiMinor)
    return runtimeFacts(runtime, facts)?.recursiveReadOnly === true
      ? "engine"
      : { why: "the engine's OCI runtime does not offer it" };
  const needed = `needs Docker API 1.${readOnlyOptionsApiMinor}, the engine is used with 1.${facts.apiMinor}`;
  const problem = whyNoOciRuntime({ facts, runtime, problem: ociProblem });
  if (problem !== undefined) return { why: `${needed}, and ${problem}` };
  return runtimeFacts(ociRuntimeName, facts)?.recursiveReadOnly === true
    ? "ociRuntime"
    : { why: `${needed}, and the engine does not say that its runc has it (runc 1.1)` };
}

/** `version` as the engine tells it: `6.18.5-1`. */
export function kernelAtLeast(version: string, major: number, minor: number): boolean {
  const match = /^(\d+)\.(\d+)/.exec(version);
  if (match === null) return false;
  const [actualMajor, actualMinor] = [Number(match[1]), Number(match[2])];
  return actualMajor > major || (actualMajor === major && actualMinor >= minor);
}
