/** Metrics of a pod's network. */
import { MetricType } from "../../../domain/cri.js";
import type { DirectionReading, InterfaceReading } from "../../../domain/resource-reading.js";
import type { MetricDefinition } from "./metric.js";

type Interfaces = readonly InterfaceReading[];

const directions = [
  { word: "receive", help: "received", of: ({ received }: InterfaceReading) => received },
  { word: "transmit", help: "sent", of: ({ transmitted }: InterfaceReading) => transmitted },
] as const;

const counts = [
  { name: "bytes", help: "Bytes", of: ({ bytes }: DirectionReading) => bytes },
  { name: "packets", help: "Packets", of: ({ packets }: DirectionReading) => packets },
  { name: "packets_dropped", help: "Dropped packets", of: ({ dropped }: DirectionReading) => dropped },
  { name: "errors", help: "Errors", of: ({ errors }: DirectionReading) => errors },
] as const;

export const networkMetrics: readonly MetricDefinition<Interfaces>[] = directions.flatMap((direction) =>
  counts.map((count) => ({
    name: `container_network_${direction.word}_${count.name}_total`,
    help: `${count.help}, ${direction.help}`,
    type: MetricType.COUNTER,
    labels: ["interface"],
    samples: (interfaces: Interfaces) =>
      interfaces.map((reading) => ({ labels: [reading.name], value: count.of(direction.of(reading)) })),
  })),
);
