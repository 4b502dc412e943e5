/** The parts of OpenTelemetry that are used, to be imported late; lib/yaml.ts has the reason. */
export { ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } from "@opentelemetry/api";
export { ExportResultCode, parseTraceParent } from "@opentelemetry/core";
export { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-grpc";
export { detectResources, envDetector, resourceFromAttributes } from "@opentelemetry/resources";
export {
  BatchSpanProcessor,
  ParentBasedSampler,
  RandomIdGenerator,
  SamplingDecision,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from "@opentelemetry/sdk-trace";
