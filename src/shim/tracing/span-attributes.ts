/** Names and attributes of spans, by the semantic conventions of OpenTelemetry where they have some. */
import type { Attributes } from "@opentelemetry/api";
import type { Span } from "../../lib/waits.js";
import type { EndedCall } from "../ports/ended-calls.js";

/** `method`: as `runtime.v1.RuntimeService/RunPodSandbox`. */
export function callAttributes(call: EndedCall, method: string): Attributes {
  const { code, subject, droppedSpans } = call;
  const [namespace, pod] = subject.pod?.split("/") ?? [];
  return defined({
    "rpc.system.name": "grpc",
    "rpc.method": method,
    "rpc.response.status_code": code,
    "k8s.namespace.name": namespace,
    "k8s.pod.name": pod,
    "k8s.pod.uid": subject.podUid,
    "k8s.container.name": subject.containerName,
    "container.id": subject.containerId,
    "container.image.name": subject.image,
    "dockershim.sandbox.id": subject.sandboxId,
    "dockershim.dropped_spans": droppedSpans === 0 ? undefined : droppedSpans,
  });
}

/** Codes that tell of a fault of the server, as otelgrpc has them: a span of the others is no failure. */
export const serverFaults: ReadonlySet<string> = new Set([
  ...["UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"],
]);

/**
 * From a small set: without names of pods and containers, ids and numbers, which `dockershim.wait` has. The type of a
 * CNI plugin stays.
 */
export function nameOfWait({ kind, what }: Pick<Span, "kind" | "what">): string {
  if (kind === "lock") return "lock";
  if (kind === "plugin") return what.replace(/ for .*$/s, "");
  return what.replaceAll(/ ?(?:"(?:[^"\\]|\\.)*"?|\b[\da-f]{12,64}\b)/gs, "");
}

export function waitAttributes({ kind, what }: Span): Attributes {
  return { "dockershim.wait": what, "dockershim.wait.kind": kind };
}

function defined(attributes: Readonly<Record<string, string | number | undefined>>): Attributes {
  return Object.fromEntries(Object.entries(attributes).filter(([, value]) => value !== undefined));
}
