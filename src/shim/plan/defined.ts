/** Helpers to write a whole Docker body as one literal, although its absent fields must really be absent. */

/** `T` with every field that may be undefined turned into an optional one. */
export type Defined<T> = { [K in keyof T as undefined extends T[K] ? never : K]: T[K] } & {
  [K in keyof T as undefined extends T[K] ? K : never]?: Exclude<T[K], undefined>;
};

/** A copy without the fields whose value is undefined. */
export function defined<T extends object>(value: T): Defined<T> {
  return Object.fromEntries(Object.entries(value).filter(([, field]) => field !== undefined)) as Defined<T>;
}

/** The list, or undefined when it is empty: Docker takes several empty lists for "none" rather than "default". */
export function unlessEmpty<T>(list: readonly T[]): readonly T[] | undefined {
  return list.length === 0 ? undefined : list;
}

/** The text, or undefined when it is empty. */
export function unlessBlank(text: string): string | undefined {
  return text === "" ? undefined : text;
}
