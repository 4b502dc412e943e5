/** Figures of several servers, and the ratios of the first one to the others with their spread. */

export interface Figures {
  readonly server: string;
  readonly median: number;
  readonly p95: number;
  readonly mean: number;
  /** Round by round. */
  readonly values: readonly number[];
  /** First server divided by this one; undefined for the first. */
  readonly ratio?: Ratio;
}

export interface Ratio {
  /** Of the medians, or of the means where the row has those. */
  readonly ratio: number;
  /** Quartiles of the ratios of rounds that belong together; infinite where the other server took nothing. */
  readonly quartiles: readonly [lower: number, upper: number];
}

export interface Row {
  readonly title: string;
  readonly unit: "ms" | "s" | "MiB";
  /** CPU times have clock ticks of 10 ms, so that only their mean tells small differences. */
  readonly center: "median" | "mean";
  readonly figures: readonly Figures[];
}

/** `values` per server, round by round; the first server is divided by the others. */
export function rowOf(
  { title, unit, center = "median" }: Pick<Row, "title" | "unit"> & { readonly center?: Row["center"] },
  values: readonly { readonly server: string; readonly values: readonly number[] }[],
): Row {
  const all = values.map((entry) => ({ ...entry, ...summaryOf(entry.values) }));
  const [first] = all;
  const figures = all.map((own, index) => {
    if (index === 0 || first === undefined) return own;
    const ratios = own.values.map((value, round) => (first.values[round] ?? NaN) / value);
    // Without the infinite ones, the zeros at the other end would count alone.
    const sorted = ratios.filter((ratio) => !Number.isNaN(ratio)).toSorted((a, b) => a - b);
    const quartiles = [quantile(sorted, 0.25), quantile(sorted, 0.75)] as const;
    return { ...own, ratio: { ratio: first[center] / own[center], quartiles } };
  });
  return { title, unit, center, figures };
}

export function summaryOf(values: readonly number[]): Pick<Figures, "median" | "p95" | "mean"> {
  const sorted = values.toSorted((a, b) => a - b);
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return { median: quantile(sorted, 0.5), p95: quantile(sorted, 0.95), mean };
}

export function medianOf(values: readonly number[]): number {
  return summaryOf(values).median;
}

/** Between two values in proportion; next to an infinite one that one. NaN of nothing. */
export function quantile(sorted: readonly number[], share: number): number {
  const place = (sorted.length - 1) * share;
  const below = sorted[Math.floor(place)] ?? NaN;
  const above = sorted[Math.ceil(place)] ?? NaN;
  return below === above ? below : below + (above - below) * (place - Math.floor(place));
}
