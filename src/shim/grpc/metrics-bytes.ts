/**
 * The bytes of PodSandboxMetrics, written without the encoder of gRPC. A scrape of 100 pods has 14,000 metrics; the encoder makes
 * a dozen objects for each, which is most of the garbage that this program makes. Here the parts that metrics share are
 * encoded once: the names for good, times and labels per subject.
 */
import type { Answer, ContainerMetrics, Metric, PodSandboxMetrics } from "../domain/cri.js";

/** Keys of the fields: number and wire type. */
const key = {
  podSandboxId: 0x0a,
  podMetrics: 0x12,
  containerMetrics: 0x1a,
  containerId: 0x0a,
  metrics: 0x12,
  name: 0x0a,
  timestamp: 0x10,
  metricType: 0x18,
  labelValue: 0x22,
  value: 0x2a,
  wrapped: 0x08,
} as const;

/** An encoder that keeps the names of metrics, of which there are as many as definitions. */
export function metricsEncoder(): (message: Answer<PodSandboxMetrics>) => Buffer {
  const names = new Map<string, Buffer>();
  return (message) => new MetricsEncoding(names).encode(message);
}

class MetricsEncoding {
  readonly #labels = new Map<readonly string[], Buffer>();
  #time = "";
  #timeBytes: Buffer = Buffer.alloc(0);

  constructor(private readonly names: Map<string, Buffer>) {}

  encode({ pod_sandbox_id = "", metrics = [], container_metrics = [] }: Answer<PodSandboxMetrics>): Buffer {
    const sizes = container_metrics.map((container) => this.#containerSize(container));
    const output = new Output(
      stringSize(pod_sandbox_id) +
        this.#metricsSize(metrics) +
        sizes.reduce((sum, size) => sum + nestedSize(size), 0),
    );
    output.string(key.podSandboxId, pod_sandbox_id);
    this.#writeMetrics(output, key.podMetrics, metrics);
    for (const [index, container] of container_metrics.entries()) {
      output.nested(key.containerMetrics, sizes[index] ?? 0);
      output.string(key.containerId, container.container_id ?? "");
      this.#writeMetrics(output, key.metrics, container.metrics ?? []);
    }
    return output.bytes;
  }

  #containerSize({ container_id = "", metrics = [] }: Answer<ContainerMetrics>): number {
    return stringSize(container_id) + this.#metricsSize(metrics);
  }

  #metricsSize(metrics: readonly Answer<Metric>[]): number {
    let size = 0;
    for (const metric of metrics) size += nestedSize(this.#metricSize(metric));
    return size;
  }

  #metricSize(metric: Answer<Metric>): number {
    return (
      this.#name(metric).length +
      this.#timestamp(metric).length +
      typeSize(metric) +
      this.#labelValues(metric).length +
      valueSize(metric)
    );
  }

  #writeMetrics(output: Output, field: number, metrics: readonly Answer<Metric>[]): void {
    for (const metric of metrics) {
      output.nested(field, this.#metricSize(metric));
      output.copy(this.#name(metric));
      output.copy(this.#timestamp(metric));
      if (typeSize(metric) > 0) {
        output.varint(key.metricType);
        output.varint(metric.metric_type ?? 0);
      }
      output.copy(this.#labelValues(metric));
      this.#writeValue(output, metric);
    }
  }

  #writeValue(output: Output, metric: Answer<Metric>): void {
    const value = valueOf(metric);
    if (value === undefined) return;
    output.nested(key.value, wrappedSize(value));
    if (value === 0) return;
    output.varint(key.wrapped);
    output.varint(value);
  }

  #name({ name = "" }: Answer<Metric>): Buffer {
    let bytes = this.names.get(name);
    if (bytes === undefined) {
      const output = new Output(stringSize(name));
      output.string(key.name, name);
      bytes = output.bytes;
      this.names.set(name, bytes);
    }
    return bytes;
  }

  /** Metrics of one subject have one time, and come one after the other. */
  #timestamp({ timestamp = "0" }: Answer<Metric>): Buffer {
    if (this.#time !== timestamp) {
      const value = BigInt(timestamp);
      const output = new Output(1 + varintSize(value));
      output.varint(key.timestamp);
      output.varint(value);
      this.#time = timestamp;
      this.#timeBytes = output.bytes;
    }
    return this.#timeBytes;
  }

  /** Most metrics of a subject share one array. */
  #labelValues({ label_values = [] }: Answer<Metric>): Buffer {
    let bytes = this.#labels.get(label_values);
    if (bytes === undefined) {
      const output = new Output(label_values.reduce((sum, label) => sum + 1 + textSize(label), 0));
      for (const label of label_values) output.text(key.labelValue, label);
      bytes = output.bytes;
      this.#labels.set(label_values, bytes);
    }
    return bytes;
  }
}

/** Bytes of a known number, filled from the front. */
class Output {
  readonly bytes: Buffer;
  #offset = 0;

  constructor(size: number) {
    this.bytes = Buffer.allocUnsafe(size);
  }

  copy(bytes: Buffer): void {
    this.#offset += bytes.copy(this.bytes, this.#offset);
  }

  varint(value: number | bigint): void {
    if (typeof value === "bigint") {
      let rest = value;
      for (; rest >= 0x80n; rest >>= 7n) this.#byte(Number(rest & 0x7fn) | 0x80);
      this.#byte(Number(rest));
    } else {
      let rest = value;
      for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) this.#byte((rest % 0x80) | 0x80);
      this.#byte(rest);
    }
  }

  nested(field: number, size: number): void {
    this.varint(field);
    this.varint(size);
  }

  /** An empty one is left out, as everywhere in proto3 but in lists. */
  string(field: number, text: string): void {
    if (text !== "") this.text(field, text);
  }

  text(field: number, text: string): void {
    this.nested(field, Buffer.byteLength(text));
    this.#offset += this.bytes.write(text, this.#offset, "utf8");
  }

  #byte(value: number): void {
    this.#offset = this.bytes.writeUInt8(value, this.#offset);
  }
}

function varintSize(value: number | bigint): number {
  let size = 1;
  if (typeof value === "bigint") for (let rest = value >> 7n; rest > 0n; rest >>= 7n) size += 1;
  else for (let rest = value; rest >= 0x80; rest = Math.floor(rest / 0x80)) size += 1;
  return size;
}

/** With its length before it. */
function textSize(text: string): number {
  const bytes = Buffer.byteLength(text);
  return varintSize(bytes) + bytes;
}

function stringSize(text: string): number {
  return text === "" ? 0 : 1 + textSize(text);
}

function nestedSize(size: number): number {
  return 1 + varintSize(size) + size;
}

function typeSize({ metric_type = 0 }: Answer<Metric>): number {
  return metric_type === 0 ? 0 : 2;
}

function valueSize(metric: Answer<Metric>): number {
  const value = valueOf(metric);
  return value === undefined ? 0 : nestedSize(wrappedSize(value));
}

function wrappedSize(value: number | bigint): number {
  return value === 0 ? 0 : 1 + varintSize(value);
}

/** Undefined where the metric has none. Exact beyond 2^53, too. */
function valueOf({ value }: Answer<Metric>): number | bigint | undefined {
  if (value === undefined || value === null) return undefined;
  const text = value.value ?? "0";
  const number = Number(text);
  return Number.isSafeInteger(number) ? number : BigInt.asUintN(64, BigInt(text));
}
