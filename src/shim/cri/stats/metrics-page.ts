/** The metrics of ListPodSandboxMetrics in the text format of Prometheus, 0.0.4. */
import { MetricType } from "../../../domain/cri.js";
import { commonLabels, type MakeSample } from "./metrics/metric.js";
import { type MetricsServices, podSamples } from "./pod-samples.js";

/** By name: the format wants all samples of a metric behind each other. */
interface Family {
  readonly head: string;
  readonly lines: string[];
}

/** Without timestamps, so that Prometheus sees at once that a container is gone. */
export async function metricsPage(services: MetricsServices, signal: AbortSignal): Promise<string> {
  const families = new Map<string, Family>();
  const write: MakeSample<void> = (definition, labelValues, value) => {
    const { name, help, type, labels = [] } = definition;
    if (!Number.isFinite(value)) return;
    let family = families.get(name);
    if (family === undefined) {
      const kind = type === MetricType.COUNTER ? "counter" : "gauge";
      family = { head: `# HELP ${name} ${help}\n# TYPE ${name} ${kind}\n`, lines: [] };
      families.set(name, family);
    }
    const pairs = [...commonLabels, ...labels].map(
      (label, index) => `${label}="${escaped(labelValues[index] ?? "")}"`,
    );
    family.lines.push(`${name}{${pairs.join(",")}} ${value}\n`);
  };
  for await (const _pod of podSamples(services, write, signal));
  return [...families.values()].map(({ head, lines }) => head + lines.join("")).join("");
}

function escaped(text: string): string {
  return text.replaceAll(/[\\"\n]/g, (character) => (character === "\n" ? "\\n" : `\\${character}`));
}
