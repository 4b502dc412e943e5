/** A straight line through figures that should not grow. */

export interface Point {
  readonly x: number;
  readonly y: number;
}

export interface Line {
  readonly slope: number;
  /** Of the slope: the points scatter around the line by chance. */
  readonly standardError: number;
}

/** Least squares. NaN for less than three points, whose scatter cannot be told. */
export function fitLine(points: readonly Point[]): Line {
  if (points.length < 3) return { slope: NaN, standardError: NaN };
  const meanX = meanOf(points.map(({ x }) => x));
  const meanY = meanOf(points.map(({ y }) => y));
  const along = sumOf(points.map(({ x }) => (x - meanX) ** 2));
  const slope = sumOf(points.map(({ x, y }) => (x - meanX) * (y - meanY))) / along;
  const scatter = sumOf(points.map(({ x, y }) => (y - meanY - slope * (x - meanX)) ** 2));
  return { slope, standardError: Math.sqrt(scatter / (points.length - 2) / along) };
}

/** Growth that chance explains: a line of that scatter is as steep in one of twenty runs without any growth. */
export function isLevel({ slope, standardError }: Line): boolean {
  return Math.abs(slope) <= 2 * standardError;
}

function sumOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}

function meanOf(values: readonly number[]): number {
  return sumOf(values) / values.length;
}
