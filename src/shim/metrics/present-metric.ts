/** Metrics that are read when they are scraped, and cost nothing before. */
export interface PresentValue {
  /** As many as the metric has label names; their values must come from a small set: no ids, no names of pods. */
  readonly labels?: readonly string[];
  readonly value: number;
}

export interface PresentMetric {
  readonly name: string;
  readonly help: string;
  /** A counter never goes down while the process lives. */
  readonly type: "gauge" | "counter";
  readonly labels?: readonly string[];
  /** In memory, without waiting. A throw leaves the metric out. */
  readonly read: () => readonly PresentValue[];
}
