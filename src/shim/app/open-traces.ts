/** Traces of calls; off unless an endpoint is given. */
import { hostname } from "node:os";
import { criMessages, criRpcs } from "../../domain/cri-descriptors.js";
import type { Lifetime } from "../../lib/lifetime.js";
import type { Logger } from "../../lib/log.js";
import { otlpEndpointKind } from "../config/endpoints.js";
import type { Config } from "../config/resolve.js";
import { DescriptorTable } from "../grpc/codec/descriptors.js";
import { CallTraces } from "../tracing/call-traces.js";

/** Undefined when traces are off: then nothing is loaded. */
export async function openTraces(
  {
    otlpEndpoint: endpoint,
    otlpSamplingRatePerMillion: samplingRatePerMillion,
  }: Pick<Config, "otlpEndpoint" | "otlpSamplingRatePerMillion">,
  { version, log }: { readonly version: string; readonly log: Logger },
  lifetime: Lifetime,
): Promise<CallTraces | undefined> {
  if (endpoint === undefined) return undefined;
  const rpcs = new DescriptorTable(criMessages).rpcs(criRpcs);
  const traces = await CallTraces.open({
    endpoint: String(otlpEndpointKind.format(endpoint)),
    samplingRatePerMillion,
    resource: { "service.name": "dockershim", "service.version": version, "service.instance.id": hostname() },
    methods: new Map(rpcs.map(({ name, service }) => [name, `runtime.v1.${service}/${name}`])),
    log,
  });
  lifetime.onClose("export of spans", () => traces.close());
  return traces;
}
