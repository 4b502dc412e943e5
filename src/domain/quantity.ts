/** Kubernetes quantities: `500m`, `128Mi`, `1.5`, `1e3`, `2Gi`. */

const pattern = /^([+-]?)(\d+(?:\.\d*)?|\.\d+)(?:([eE][+-]?\d{1,3})|(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei))?$/;

/** Each suffix as a fraction, numerator and denominator. */
const suffixes: Readonly<Record<string, readonly [bigint, bigint]>> = {
  n: [1n, 1_000_000_000n],
  u: [1n, 1_000_000n],
  m: [1n, 1000n],
  k: [1000n, 1n],
  M: [1000n ** 2n, 1n],
  G: [1000n ** 3n, 1n],
  T: [1000n ** 4n, 1n],
  P: [1000n ** 5n, 1n],
  E: [1000n ** 6n, 1n],
  Ki: [1024n, 1n],
  Mi: [1024n ** 2n, 1n],
  Gi: [1024n ** 3n, 1n],
  Ti: [1024n ** 4n, 1n],
  Pi: [1024n ** 5n, 1n],
  Ei: [1024n ** 6n, 1n],
};

const maximum = 2n ** 63n - 1n;

/**
 * The quantity in units of 1/`perUnit` (1000 for millicores, 1 for bytes), rounded up as the Kubernetes API
 * does; undefined when `text` is no quantity. Values beyond a signed 64-bit integer are cut to the largest.
 */
export function parseQuantity(text: string, perUnit: 1 | 1000): bigint | undefined {
  const match = pattern.exec(text);
  if (match === null) return undefined;
  const [, sign = "", digits = "", exponent, suffix] = match;
  const [whole = "", fraction = ""] = digits.split(".");
  if (whole.length + fraction.length > 40) return undefined;
  let numerator = BigInt(whole + fraction) * BigInt(perUnit);
  let denominator = 10n ** BigInt(fraction.length);
  if (exponent !== undefined) {
    const power = Number(exponent.slice(1));
    if (power >= 0) numerator *= 10n ** BigInt(power);
    else denominator *= 10n ** BigInt(-power);
  } else if (suffix !== undefined) {
    const [times, by] = suffixes[suffix] ?? [1n, 1n];
    numerator *= times;
    denominator *= by;
  }
  const magnitude = (numerator + denominator - 1n) / denominator;
  const bounded = magnitude > maximum ? maximum : magnitude;
  return sign === "-" ? -bounded : bounded;
}
