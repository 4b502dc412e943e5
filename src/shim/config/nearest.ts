/** The nearest known name, for "did you mean". */

/** Insertions, deletions, replacements and swaps of neighbours that turn `from` into `to`. */
export function editDistance(from: string, to: string): number {
  let twoBack: number[] = [];
  let previous = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (let row = 1; row <= from.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= to.length; column += 1) {
      const same = from[row - 1] === to[column - 1];
      let best = Math.min(
        (previous[column] ?? 0) + 1,
        (current[column - 1] ?? 0) + 1,
        (previous[column - 1] ?? 0) + (same ? 0 : 1),
      );
      if (row > 1 && column > 1 && from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1]) {
        best = Math.min(best, (twoBack[column - 2] ?? 0) + 1);
      }
      current.push(best);
    }
    twoBack = previous;
    previous = current;
  }
  return previous[to.length] ?? 0;
}

/** The name of `known` nearest to `name`; undefined when nothing resembles it. Names in which it is contained count as near. */
export function nearestName(name: string, known: Iterable<string>): string | undefined {
  let best: { readonly name: string; readonly distance: number } | undefined;
  for (const candidate of known) {
    const contained = name.length >= 3 && candidate.includes(name);
    const distance = contained ? 1.5 : editDistance(name, candidate);
    if (best === undefined || distance < best.distance) best = { name: candidate, distance };
  }
  if (best === undefined) return undefined;
  const longest = Math.max(name.length, best.name.length);
  return best.distance < longest && best.distance <= Math.max(1, longest * 0.4) ? best.name : undefined;
}

/** `: did you mean "x"?`, or nothing when no known name resembles `name`; `decorate` turns a name into its spelling. */
export function didYouMean(
  name: string,
  known: Iterable<string>,
  decorate: (name: string) => string = (plain) => plain,
): string {
  const nearest = nearestName(name, known);
  return nearest === undefined ? "" : `: did you mean "${decorate(nearest)}"?`;
}
