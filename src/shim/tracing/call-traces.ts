/** Sends ended calls of the CRI, with what they waited for, to an OTLP receiver. */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { Socket } from "node:net";
import type { Context, HrTime, Span as OpenSpan, SpanOptions, Tracer, Attributes } from "@opentelemetry/api";
import type { ReadableSpan, Sampler, SpanExporter } from "@opentelemetry/sdk-trace";
import { stopWithin } from "../../lib/abort.js";
import { messageOf } from "../../lib/errors.js";
import type { Logger } from "../../lib/log.js";
import type { Span } from "../../lib/waits.js";
import type { EndedCall, EndedCallSubscriber, TraceIdOf } from "../ports/ended-calls.js";
import type * as opentelemetry from "./opentelemetry.js";

type OpenTelemetry = typeof opentelemetry;

export interface CallTracesOptions {
  /** `http://host:port`, or `https://` with TLS. */
  readonly endpoint: string;
  /** Of calls without a trace of their caller. */
  readonly samplingRatePerMillion: number;
  /** As `service.name`; OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME replace them. */
  readonly resource: Readonly<Record<string, string>>;
  /** By name of the RPC, as `runtime.v1.RuntimeService/RunPodSandbox`. */
  readonly methods: ReadonlyMap<string, string>;
  readonly log: Pick<Logger, "info" | "warn">;
  /** Limits that only tests change. */
  readonly largestBacklog?: number;
  readonly delayMs?: number;
}

export interface SpanCounts {
  readonly exported: number;
  /** The receiver did not take them, or too many waited for it. */
  readonly dropped: number;
}

interface Ids {
  readonly traceId?: string | undefined;
  readonly spanId?: string | undefined;
}

/** Spans that wait to be sent, or are sent at this moment. A pod start has some 50. */
const largestBacklog = 4096;
const batchSpans = 512;
const delayMs = 2_000;
const tlsPort = 443;
/** A receiver that does not answer. */
const exportTimeoutMs = 5_000;
/** For the spans of the last calls. */
const closeMs = 1_000;

export class CallTraces implements EndedCallSubscriber {
  readonly #tracer: Tracer;
  readonly #provider: opentelemetry.TracerProvider;
  readonly #exporter: opentelemetry.OTLPTraceExporter;
  readonly #connections: PendingConnections;
  readonly #sampler: Sampler;
  readonly #ids: opentelemetry.RandomIdGenerator;
  /** Of the span that is made next, where requests to the engine have had them. */
  #next: Ids = {};
  #backlog = 0;
  #exported = 0;
  #dropped = 0;
  #isFailing = false;

  private constructor(
    private readonly otel: OpenTelemetry,
    private readonly options: CallTracesOptions,
  ) {
    const { endpoint: url, resource, samplingRatePerMillion } = options;
    // A URL does not show the port of its scheme.
    this.#connections = new PendingConnections(Number(new URL(url).port || tlsPort));
    this.#exporter = new otel.OTLPTraceExporter({ url, timeoutMillis: exportTimeoutMs });
    this.#sampler = new otel.ParentBasedSampler({
      root: new otel.TraceIdRatioBasedSampler(samplingRatePerMillion / 1_000_000),
    });
    this.#ids = new otel.RandomIdGenerator();
    this.#provider = new otel.TracerProvider({
      resource: otel
        .resourceFromAttributes(resource)
        .merge(otel.detectResources({ detectors: [otel.envDetector] })),
      sampler: this.#sampler,
      idGenerator: {
        generateTraceId: () => this.#next.traceId ?? this.#ids.generateTraceId(),
        generateSpanId: () => this.#next.spanId ?? this.#ids.generateSpanId(),
      },
      spanProcessors: [
        new otel.BatchSpanProcessor({
          exporter: this.#counted(this.#exporter),
          maxQueueSize: options.largestBacklog ?? largestBacklog,
          maxExportBatchSize: Math.min(batchSpans, options.largestBacklog ?? largestBacklog),
          scheduledDelayMillis: options.delayMs ?? delayMs,
        }),
      ],
    });
    this.#tracer = this.#provider.getTracer("dockershim");
  }

  /** Loads OpenTelemetry. Connects when the first spans are sent. */
  static async open(options: CallTracesOptions): Promise<CallTraces> {
    const traces = new CallTraces(await import("./opentelemetry.js"), options);
    traces.#connections.start();
    return traces;
  }

  get counts(): SpanCounts {
    return { exported: this.#exported, dropped: this.#dropped };
  }

  readonly traceIdOf: TraceIdOf = (traceParent) => {
    const { SamplingDecision, SpanKind, trace } = this.otel;
    const parent = this.#parentOf(traceParent);
    const traceId = trace.getSpanContext(parent)?.traceId ?? this.#ids.generateTraceId();
    // The same one says so again of the call's span: it looks at parent and id alone.
    const { decision } = this.#sampler.shouldSample(parent, traceId, "", SpanKind.SERVER, {}, []);
    return decision === SamplingDecision.RECORD_AND_SAMPLED ? traceId : undefined;
  };

  callEnded(call: EndedCall): void {
    const { rpc, code, message, startedAtMs, startMs, ms, traceId } = call;
    if (traceId === undefined) return;
    const count = 1 + countOf(call.spans);
    // A trace is sent whole or not at all.
    if (this.#backlog + count > (this.options.largestBacklog ?? largestBacklog)) {
      this.#dropped += count;
      return;
    }
    this.#backlog += count;
    const { SpanKind, SpanStatusCode, trace } = this.otel;
    const method = this.options.methods.get(rpc) ?? rpc;
    const timeOf = (atMs: number): HrTime => hrTimeOf(startedAtMs + atMs - startMs);
    const parent = this.#parentOf(call.traceParent);
    const attributes = callAttributes(call, method);
    const begin = { kind: SpanKind.SERVER, startTime: timeOf(startMs), attributes };
    const root = this.#start(method, begin, parent, { traceId });
    this.#startBelow(trace.setSpan(parent, root), call.spans, timeOf);
    if (serverFaults.has(code))
      root.setStatus({ code: SpanStatusCode.ERROR, ...(message === undefined ? {} : { message }) });
    root.end(timeOf(startMs + ms));
  }

  /** Sends what waits, for a second at most. Never fails. */
  async close(): Promise<void> {
    await stopWithin(closeMs, this.#provider.shutdown()).catch(() => closeChannel(this.#exporter));
    this.#connections.stop();
  }

  #start(name: string, begin: SpanOptions, parent: Context, ids: Ids): OpenSpan {
    this.#next = ids;
    try {
      return this.#tracer.startSpan(name, begin, parent);
    } finally {
      this.#next = {};
    }
  }

  #parentOf(traceParent = ""): Context {
    const { parseTraceParent, ROOT_CONTEXT, trace } = this.otel;
    const parent = parseTraceParent(traceParent);
    return parent === null ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, { ...parent, isRemote: true });
  }

  #startBelow(parent: Context, spans: readonly Span[], timeOf: (atMs: number) => HrTime): void {
    const { SpanKind, SpanStatusCode, trace } = this.otel;
    for (const wait of spans) {
      const { id: spanId, kind, startMs, endMs, error, children } = wait;
      const begin = {
        kind: kind === "engine" ? SpanKind.CLIENT : SpanKind.INTERNAL,
        startTime: timeOf(startMs),
        attributes: waitAttributes(wait),
      };
      const span = this.#start(nameOfWait(wait), begin, parent, { spanId });
      this.#startBelow(trace.setSpan(parent, span), children, timeOf);
      if (error !== undefined) span.setStatus({ code: SpanStatusCode.ERROR, message: error });
      span.end(timeOf(endMs));
    }
  }

  /** `exporter`, with its results counted, and changes of them logged. */
  #counted(exporter: SpanExporter): SpanExporter {
    return {
      export: (spans: ReadableSpan[], done) => {
        exporter.export(spans, (result) => {
          this.#backlog -= spans.length;
          if (result.code === this.otel.ExportResultCode.SUCCESS) this.#sent(spans.length);
          else this.#lost(spans.length, result.error);
          done(result);
        });
      },
      shutdown: () => exporter.shutdown(),
    };
  }

  #sent(count: number): void {
    this.#exported += count;
    if (!this.#isFailing) return;
    this.#isFailing = false;
    this.options.log.info({ endpoint: this.options.endpoint }, "spans are exported again");
  }

  #lost(count: number, error: Error | undefined): void {
    this.#dropped += count;
    if (this.#isFailing) return;
    this.#isFailing = true;
    this.options.log.warn(
      { endpoint: this.options.endpoint, err: messageOf(error) },
      "spans cannot be exported and are dropped",
    );
  }
}

/**
 * Ends what is being sent, which keeps the process alive: the exporter's own `shutdown` waits for it. The channel is not
 * public; the versions are pinned, and a test notices.
 */
function closeChannel(exporter: opentelemetry.OTLPTraceExporter): void {
  const delegate = exporter["_delegate"] as unknown as { readonly _transport: { shutdown(): void } };
  delegate._transport.shutdown();
}

function countOf(spans: readonly Span[]): number {
  return spans.reduce((sum, { children }) => sum + 1 + countOf(children), 0);
}

/** Unlike a number, it is never taken for one of `performance.now()`. */
function hrTimeOf(epochMs: number): HrTime {
  const wholeMs = Math.floor(epochMs);
  const seconds = Math.floor(wholeMs / 1000);
  return [seconds, (wholeMs - seconds * 1000) * 1_000_000 + Math.floor((epochMs - wholeMs) * 1_000_000)];
}

/** `method`: as `runtime.v1.RuntimeService/RunPodSandbox`. */
function callAttributes(call: EndedCall, method: string): Attributes {
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
const serverFaults: ReadonlySet<string> = new Set([
  ...["UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"],
]);

/**
 * From a small set: without names of pods and containers, ids and numbers, which `dockershim.wait` has. The type of a
 * CNI plugin stays.
 */
function nameOfWait({ kind, what }: Pick<Span, "kind" | "what">): string {
  if (kind === "lock") return "lock";
  if (kind === "plugin") return what.replace(/ for .*$/s, "");
  return what.replaceAll(/ ?(?:"(?:[^"\\]|\\.)*"?|\b[\da-f]{12,64}\b)/gs, "");
}

/** Names and attributes of spans, by the semantic conventions of OpenTelemetry where they have some. */
function waitAttributes({ kind, what }: Span): Attributes {
  return { "dockershim.wait": what, "dockershim.wait.kind": kind };
}

function defined(attributes: Readonly<Record<string, string | number | undefined>>): Attributes {
  return Object.fromEntries(Object.entries(attributes).filter(([, value]) => value !== undefined));
}

/** Documented by Node.js: each socket of a client, before it connects. */
const channel = "net.client.socket";

/**
 * Connections of this process to a port that nothing has answered yet. grpc-js keeps them for two minutes, also when
 * its channel is closed, and Node.js does not end while there is one.
 */
class PendingConnections {
  readonly #sockets = new Set<Socket>();

  constructor(private readonly port: number) {}

  /** From now on connections are watched. */
  start(): void {
    subscribe(channel, this.#watch);
  }

  /** Ends those that are pending, and watches no more. */
  stop(): void {
    unsubscribe(channel, this.#watch);
    for (const socket of this.#sockets) socket.destroy();
  }

  readonly #watch = (message: unknown): void => {
    const { socket } = message as { readonly socket: Socket };
    // Node.js before 20.12 has no such event, and ends such a process by force.
    socket.once("connectionAttempt", (_address: string, port: number) => {
      if (port !== this.port) return;
      this.#sockets.add(socket);
      const forget = (): unknown => this.#sockets.delete(socket);
      socket.once("connect", forget).once("close", forget);
    });
  };
}
