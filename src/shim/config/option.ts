/** What an option is: its name in every place it can be given, how its text is read, and what the documentation says. */

/** How `dockershim config` and the structured output write a value. */
export type PlainValue = string | number | boolean | readonly string[];

/** Reads and writes the values of one kind, such as durations. */
export interface ValueKind<T> {
  /** What stands for the value in `--help`, such as `duration`. */
  readonly placeholder: string;
  /** Throws `ShimError` of kind `invalid` whose message is only the reason; the caller says where the text came from. */
  parse(text: string): T;
  /** The inverse of `parse`, up to normalisation. */
  format(value: T): PlainValue;
  /** A switch: as a flag it may stand alone, meaning true. */
  readonly isBoolean?: boolean;
  /** A YAML sequence is accepted; its items reach `parse` joined by commas. */
  readonly isList?: boolean;
  /** As a flag it may be given several times: the texts reach `parse` joined by commas. */
  readonly isRepeatable?: boolean;
}

/** Headings of `--help` and of the documentation. */
export const optionGroups = [
  "Serving the CRI",
  "Docker Engine",
  "Images",
  "Containers",
  "Network",
  "Streaming",
  "Logging",
  "Metrics",
] as const;

export interface Option<T> {
  /** The flag without dashes, also the key in the configuration file. */
  readonly name: string;
  /** Other flags with the same meaning. */
  readonly aliases?: readonly string[];
  readonly group: (typeof optionGroups)[number];
  readonly kind: ValueKind<T>;
  /** As text, read like text given by the user. */
  readonly default: string;
  /** Shown in place of `default` where that is empty or does not explain itself. */
  readonly defaultShown?: string;
  readonly help: string;
  /** The default of cri-dockerd 0.4.3; undefined where it has no such flag. */
  readonly criDockerdDefault?: string;
  /** The default of the kubelet 1.20 with dockershim; undefined where it has no such flag. */
  readonly kubeletDefault?: string;
  /** Why this default, where the others differ from it or from each other. */
  readonly why?: string;
}

/** `DOCKERSHIM_` and the name in upper snake case. */
export function environmentName(optionName: string): string {
  return `DOCKERSHIM_${optionName.toUpperCase().replaceAll("-", "_")}`;
}

/** Keeps the type of the value while the table is written. */
export function option<T>(definition: Option<T>): Option<T> {
  return definition;
}
