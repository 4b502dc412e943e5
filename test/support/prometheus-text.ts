/** Reads the text format of Prometheus, strictly: what a scraper would refuse fails the test. */
import assert from "node:assert/strict";

export interface ScrapedSample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export interface Scrape {
  /** By metric name. */
  readonly types: ReadonlyMap<string, string>;
  readonly samples: readonly ScrapedSample[];
  /** The value of the one sample with that name and at least those labels; undefined when there is none. */
  value(name: string, labels?: Readonly<Record<string, string>>): number | undefined;
}

const nameForm = "[a-zA-Z_:][a-zA-Z0-9_:]*";
const labelForm = '[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\\\\n]|\\\\[\\\\"n])*"';
const sampleLine = new RegExp(`^(${nameForm})(?:\\{(${labelForm}(?:,${labelForm})*)\\})? (\\S+)$`);

export function parsePrometheusText(text: string): Scrape {
  assert.ok(text.endsWith("\n"), "the last line has an end");
  const types = new Map<string, string>();
  const samples: ScrapedSample[] = [];
  const seen = new Set<string>();
  for (const line of text.split("\n")) {
    if (line === "") continue;
    const comment = new RegExp(`^# (HELP|TYPE) (${nameForm}) (.+)$`).exec(line);
    if (comment !== null) {
      const [, kind, name = "", rest = ""] = comment;
      if (kind === "TYPE") {
        assert.ok(!types.has(name), `one type of ${name}`);
        assert.match(rest, /^(?:counter|gauge|histogram|summary)$/);
        types.set(name, rest);
      }
      continue;
    }
    const [, name = "", labelText = "", value = ""] = sampleLine.exec(line) ?? [];
    assert.notEqual(name, "", `a line that is no sample: ${line}`);
    // Go, and so Prometheus, reads these words in any case.
    assert.ok(/^(?:\+inf|nan)$/i.test(value) || Number.isFinite(Number(value)), line);
    assert.ok(!seen.has(`${name}{${labelText}`), `twice: ${line}`);
    seen.add(`${name}{${labelText}`);
    const family = types.has(name) ? name : name.replace(/_(?:bucket|sum|count)$/, "");
    assert.ok(types.has(family), `a sample without a type before it: ${line}`);
    const labels = Object.fromEntries(
      [...labelText.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, key = "", one = ""]) => [key, one]),
    );
    samples.push({ name, labels, value: value === "+Inf" ? Infinity : Number(value) });
  }
  return {
    types,
    samples,
    value: (name, labels = {}) => {
      const found = samples.filter(
        (sample) =>
          sample.name === name &&
          Object.entries(labels).every(([key, value]) => sample.labels[key] === value),
      );
      assert.ok(found.length <= 1, `${name} ${JSON.stringify(labels)} is ambiguous`);
      return found[0]?.value;
    },
  };
}
