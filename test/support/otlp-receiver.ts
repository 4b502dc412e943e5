/** An OTLP receiver over gRPC, as a collector is one, that keeps what it gets. */
import { loadPackageDefinition, Server, ServerCredentials, status } from "@grpc/grpc-js";
import type { sendUnaryData, ServerUnaryCall, ServiceClientConstructor } from "@grpc/grpc-js";
import { fromJSON } from "@grpc/proto-loader";
import { until } from "../fakes/turns.js";

export interface ReceivedSpan {
  readonly traceId: string;
  readonly spanId: string;
  /** Empty for a root. */
  readonly parentSpanId: string;
  readonly name: string;
  readonly kind: string;
  readonly startNanoseconds: bigint;
  readonly endNanoseconds: bigint;
  readonly attributes: Readonly<Record<string, string>>;
  readonly resource: Readonly<Record<string, string>>;
  /** Undefined unless the span failed. */
  readonly error?: string;
}

export interface OtlpReceiver extends AsyncDisposable {
  readonly port: number;
  readonly spans: readonly ReceivedSpan[];
  /** Resolves when there are as many. */
  received(count: number): Promise<readonly ReceivedSpan[]>;
  /** Refuses what comes, until `accept`. */
  refuse(): void;
  accept(): void;
}

type Field = readonly [name: string, type: string, id: number, rule?: "repeated"];

function message(...fields: readonly Field[]): object {
  const entries = fields.map(([name, type, id, rule]) => [name, { type, id, ...(rule && { rule }) }]);
  return { fields: Object.fromEntries(entries) as object };
}

/** The parts of opentelemetry-proto 1.9 that are looked at. */
const messages = {
  ExportTraceServiceRequest: message(["resource_spans", "ResourceSpans", 1, "repeated"]),
  ExportTraceServiceResponse: message(),
  ResourceSpans: message(["resource", "Resource", 1], ["scope_spans", "ScopeSpans", 2, "repeated"]),
  Resource: message(["attributes", "KeyValue", 1, "repeated"]),
  ScopeSpans: message(["spans", "Span", 2, "repeated"]),
  Span: message(
    ["trace_id", "bytes", 1],
    ["span_id", "bytes", 2],
    ["parent_span_id", "bytes", 4],
    ["name", "string", 5],
    ["kind", "SpanKind", 6],
    ["start_time_unix_nano", "fixed64", 7],
    ["end_time_unix_nano", "fixed64", 8],
    ["attributes", "KeyValue", 9, "repeated"],
    ["status", "Status", 15],
  ),
  SpanKind: { values: { UNSPECIFIED: 0, INTERNAL: 1, SERVER: 2, CLIENT: 3, PRODUCER: 4, CONSUMER: 5 } },
  Status: message(["message", "string", 2], ["code", "int32", 3]),
  KeyValue: message(["key", "string", 1], ["value", "AnyValue", 2]),
  AnyValue: message(["string_value", "string", 1], ["int_value", "int64", 3]),
  TraceService: {
    methods: {
      Export: { requestType: "ExportTraceServiceRequest", responseType: "ExportTraceServiceResponse" },
    },
  },
};
const packageName = "opentelemetry.proto.collector.trace.v1";
const errorCode = 2;

interface Attribute {
  readonly key: string;
  readonly value: { readonly string_value: string; readonly int_value: string };
}

interface ExportRequest {
  readonly resource_spans: readonly {
    readonly resource: { readonly attributes: readonly Attribute[] };
    readonly scope_spans: readonly {
      readonly spans: readonly {
        readonly trace_id: Buffer;
        readonly span_id: Buffer;
        readonly parent_span_id: Buffer;
        readonly name: string;
        readonly kind: string;
        readonly start_time_unix_nano: string;
        readonly end_time_unix_nano: string;
        readonly attributes: readonly Attribute[];
        readonly status: { readonly message: string; readonly code: number } | null;
      }[];
    }[];
  }[];
}

/** On 127.0.0.1. */
export async function startOtlpReceiver(wanted = 0): Promise<OtlpReceiver> {
  const nested = packageName
    .split(".")
    .reduceRight<object>((inner, name) => ({ [name]: { nested: inner } }), messages);
  const options = { keepCase: true, longs: String, enums: String, defaults: true };
  const loaded = loadPackageDefinition(fromJSON({ nested } as never, options));
  const found = packageName
    .split(".")
    .reduce<unknown>((at, name) => (at as Record<string, unknown>)[name], loaded);
  const { TraceService } = found as { readonly TraceService: ServiceClientConstructor };
  const spans: ReceivedSpan[] = [];
  let refuses = false;
  const server = new Server();
  server.addService(TraceService.service, {
    Export: ({ request }: ServerUnaryCall<ExportRequest, object>, answer: sendUnaryData<object>) => {
      if (refuses) {
        answer({ code: status.UNAVAILABLE, details: "refused by the test" });
        return;
      }
      spans.push(...spansOf(request));
      answer(null, {});
    },
  });
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync(`127.0.0.1:${wanted}`, ServerCredentials.createInsecure(), (error, bound) => {
      if (error) reject(error);
      else resolve(bound);
    });
  });
  return {
    port,
    spans,
    received: async (count) => {
      await until(`${count} spans were received`, () => spans.length >= count);
      return spans;
    },
    refuse: () => {
      refuses = true;
    },
    accept: () => {
      refuses = false;
    },
    [Symbol.asyncDispose]: () => {
      server.forceShutdown();
      return Promise.resolve();
    },
  };
}

function spansOf({ resource_spans }: ExportRequest): readonly ReceivedSpan[] {
  return resource_spans.flatMap(({ resource, scope_spans }) =>
    scope_spans.flatMap(({ spans }) =>
      spans.map((span) => ({
        traceId: span.trace_id.toString("hex"),
        spanId: span.span_id.toString("hex"),
        parentSpanId: span.parent_span_id.toString("hex"),
        name: span.name,
        kind: span.kind,
        startNanoseconds: BigInt(span.start_time_unix_nano),
        endNanoseconds: BigInt(span.end_time_unix_nano),
        attributes: attributesOf(span.attributes),
        resource: attributesOf(resource.attributes),
        ...(span.status?.code === errorCode ? { error: span.status.message } : {}),
      })),
    ),
  );
}

function attributesOf(attributes: readonly Attribute[]): Readonly<Record<string, string>> {
  return Object.fromEntries(
    attributes.map(({ key, value }) => [
      key,
      value.string_value === "" ? value.int_value : value.string_value,
    ]),
  );
}

/** A line for each span, below its parent in order of their begin, as `  create container (CLIENT)`. */
export function treeOf(spans: readonly ReceivedSpan[], parentSpanId: string, indent = ""): readonly string[] {
  return spans
    .filter((span) => span.parentSpanId === parentSpanId)
    .toSorted((a, b) => Number(a.startNanoseconds - b.startNanoseconds))
    .flatMap(({ spanId, name, kind }) => [
      `${indent}${name} (${kind})`,
      ...treeOf(spans, spanId, `${indent}  `),
    ]);
}
