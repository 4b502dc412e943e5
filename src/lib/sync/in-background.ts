/** Begins work whose result is awaited later, or never: then its error is not reported. Answers the same promise. */
export function inBackground<T>(work: Promise<T>): Promise<T> {
  work.catch(() => undefined);
  return work;
}
