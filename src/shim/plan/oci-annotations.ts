/** Annotations of the OCI specification of a container, which the OCI runtime acts upon. */
import type { HostConfig } from "../domain/create-body.js";
import type { Labels } from "../domain/labels.js";
import type { NodeFacts } from "../domain/node-facts.js";

/** First API version with annotations in the create body: Docker Engine 24. */
const annotationsApiMinor = 43;

export function engineTakesAnnotations({ apiMinor }: Pick<NodeFacts, "apiMinor">): boolean {
  return apiMinor >= annotationsApiMinor;
}

/** What `sources` have under keys that begin with an allowed prefix; the later source wins. */
export function allowedAnnotations(sources: readonly Labels[], prefixes: readonly string[]): Labels {
  const allowed = sources
    .flatMap((source) => Object.entries(source))
    .filter(([key]) => prefixes.some((prefix) => key.startsWith(prefix)));
  return Object.fromEntries(allowed);
}

/** `undefined` where there are none, or where the engine knows none. */
export function annotationsField(annotations: Labels, facts: NodeFacts): HostConfig["Annotations"] {
  return engineTakesAnnotations(facts) && Object.keys(annotations).length > 0 ? annotations : undefined;
}

/**
 * With systemd's cgroup driver each container is a scope, which systemd stops with a timeout of its own (90 s
 * unless configured) when it stops the scope or its slice. runc and crun read this as a property of the
 * scope, in microseconds.
 */
export function stopTimeoutProperty(graceSeconds: number | undefined, facts: NodeFacts): Labels {
  if (graceSeconds === undefined || facts.cgroupDriver !== "systemd") return {};
  return { "org.systemd.property.TimeoutStopUSec": `uint64 ${graceSeconds}000000` };
}
