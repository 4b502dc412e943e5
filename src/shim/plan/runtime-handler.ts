/** Runtime handlers (of RuntimeClasses) and the Docker runtimes that they stand for. */
import type { NodeFacts, RuntimeFacts } from "../../domain/node-facts.js";
import { ociRuntimeName } from "../../domain/oci-changes.js";
import { ShimError } from "../../lib/errors.js";
import { quote } from "../../domain/field-errors.js";

/** The handler that dockershim knew besides the empty one. */
const dockerHandler = "docker";

/**
 * Docker's runtime for a handler, undefined for the engine's default (`""` and `docker`). Every runtime that
 * the engine lists is a handler of its name, but for the one that this program chooses by itself.
 */
export function dockerRuntime(handler: string, facts: NodeFacts): string | undefined {
  if (handler === "" || handler === dockerHandler) return undefined;
  if (handler !== ociRuntimeName && facts.runtimes.some(({ name }) => name === handler)) return handler;
  const known = runtimeHandlers(facts).filter((name) => name !== "");
  throw new ShimError(
    "invalid",
    `RuntimeHandler ${quote(handler)} not supported: the engine has ${known.map(quote).join(", ")}`,
    { field: "runtime_handler" },
  );
}

/** All handlers that RunPodSandbox takes, `""` (the default) first: what Status announces. */
export function runtimeHandlers(facts: NodeFacts): readonly string[] {
  const names = facts.runtimes.map(({ name }) => name).filter((name) => name !== ociRuntimeName);
  return [...new Set(["", dockerHandler, ...names])];
}

/**
 * Kind of a Docker runtime; `""` is the engine's default. One that the engine does not list is known by
 * nothing but its name, as a default runtime that names a containerd shim.
 */
export function runtimeKind(runtime: string, facts: NodeFacts): RuntimeFacts["kind"] {
  return runtimeFacts(runtime, facts)?.kind ?? "other";
}

/** What is known of a Docker runtime; `""` is the engine's default. */
export function runtimeFacts(runtime: string, facts: NodeFacts): RuntimeFacts | undefined {
  const name = runtime === "" ? facts.defaultRuntime : runtime;
  return facts.runtimes.find((candidate) => candidate.name === name);
}

/** It runs what the engine's own runc would run: pods with another handler have another program. */
export function whyNoOciRuntime({
  facts,
  runtime,
  problem,
}: {
  readonly facts: NodeFacts;
  /** Docker runtime of the pod; `""` is the engine's default. */
  readonly runtime: string;
  /** Why the OCI runtime cannot be used in any pod. */
  readonly problem: string | undefined;
}): string | undefined {
  const isUsual = ["", facts.defaultRuntime, ociRuntimeName].includes(runtime);
  if (!isUsual || runtimeKind(runtime, facts) !== "runc")
    return `the pod's runtime ${JSON.stringify(runtime)} is not the engine's runc`;
  return problem;
}
