/** Tables of metrics: name, help, and the function that takes the samples from a subject. */
import { type Answer, type Metric, type MetricDescriptor, MetricType } from "../../../../domain/cri.js";
import type { Nanoseconds } from "../../../../lib/time.js";

/** The labels of every metric. Existing dashboards use these names of cAdvisor. */
export const commonLabels = ["id", "name", "image", "container", "pod", "namespace"] as const;

export interface CommonLabels {
  /** Path of the cgroup; the container's id where the path is not known. */
  readonly id: string;
  /** Docker's name. */
  readonly name: string;
  readonly image: string;
  /** Empty for metrics of the whole pod. */
  readonly container: string;
  readonly pod: string;
  readonly namespace: string;
}

export interface Sample {
  /** As many as the definition has labels. */
  readonly labels?: readonly string[];
  /** The CRI has whole numbers only, where a fraction is cut off. */
  readonly value: number;
}

export interface MetricDefinition<Subject> {
  readonly name: string;
  readonly help: string;
  readonly type: MetricType;
  /** In addition to the common labels. */
  readonly labels?: readonly string[];
  readonly samples: (subject: Subject) => readonly Sample[];
}

export function describe({ name, help, labels = [] }: MetricDefinition<never>): Answer<MetricDescriptor> {
  return { name, help, label_keys: [...commonLabels, ...labels] };
}

/** A sample with all of its labels, in the form in which it is answered. */
export type MakeSample<Made> = (
  definition: MetricDefinition<never>,
  labelValues: readonly string[],
  value: number,
  timestamp: Nanoseconds,
) => Made;

/** All samples of the definitions for one subject. */
export function takeSamples<Subject, Made>(
  definitions: readonly MetricDefinition<Subject>[],
  subject: Subject,
  labels: CommonLabels,
  timestamp: Nanoseconds,
  make: MakeSample<Made>,
): readonly Made[] {
  const common = commonLabels.map((label) => labels[label]);
  return definitions.flatMap((definition) =>
    definition
      .samples(subject)
      .map(({ labels: own = [], value }) => make(definition, [...common, ...own], value, timestamp)),
  );
}

/** In the form of the CRI. */
export const criSample: MakeSample<Answer<Metric>> = ({ name, type }, label_values, value, timestamp) => ({
  name,
  timestamp: String(timestamp),
  metric_type: type,
  label_values,
  value: { value: String(wholeNumber(value)) },
});

/** Limits the value to those of the CRI: one invalid value must not make the whole answer fail. */
function wholeNumber(value: number): number {
  return Number.isNaN(value) ? 0 : Math.min(Math.max(Math.trunc(value), 0), Number.MAX_SAFE_INTEGER);
}

/** A metric with one sample; with none where the value is not known. */
const single =
  (type: MetricType) =>
  <Subject>(
    name: string,
    help: string,
    value: (subject: Subject) => number | undefined,
  ): MetricDefinition<Subject> => ({ name, help, type, samples: (subject) => one(value(subject)) });
export const counter = single(MetricType.COUNTER);
export const gauge = single(MetricType.GAUGE);

function one(value: number | undefined): readonly Sample[] {
  return value === undefined ? [] : [{ value }];
}
