/** The type of an option: its names, its parser and its documentation. */

/** A value in the output of `dockershim config`. */
export type PlainValue = string | number | boolean | readonly string[];

/** Reads and writes the values of one kind, such as durations. */
export interface ValueKind<T> {
  /** Placeholder of the value in `--help`, such as `duration`. */
  readonly placeholder: string;
  /** Throws an `invalid` ShimError with only the reason; the caller adds the source of the text. */
  parse(text: string): T;
  /** The inverse of `parse`, up to normalisation. */
  format(value: T): PlainValue;
  /** A switch: a flag without a value means true. */
  readonly isBoolean?: boolean;
  /** The file may have a YAML sequence; `parse` gets its items joined by commas. */
  readonly isList?: boolean;
  /** The flag may be repeated; `parse` gets the texts joined by commas. */
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
  "History",
  "Metrics",
  "Traces",
] as const;

/**
 * What the program was started as: the base name of its first word. As `cri-dockerd` it takes that program's
 * place.
 */
export type ProgramName = "dockershim" | "cri-dockerd";

/** The version of cri-dockerd whose flags the program has. */
export const criDockerdVersion = "0.4.3";

export interface Option<T> {
  /** The flag without dashes, also the key in the configuration file. */
  readonly name: string;
  /** Other flags with the same meaning. */
  readonly aliases?: readonly string[];
  readonly group: (typeof optionGroups)[number];
  readonly kind: ValueKind<T>;
  /** Parsed like text of the user. */
  readonly default: string;
  /** The documentation shows this text where `default` is empty or unclear. */
  readonly defaultShown?: string;
  readonly help: string;
  /** The default of cri-dockerd 0.4.3; undefined where it has no such flag. */
  readonly criDockerdDefault?: string;
  /** The default of the kubelet 1.20 with dockershim; undefined where it has no such flag. */
  readonly kubeletDefault?: string;
  /** Started as cri-dockerd, the program has `criDockerdDefault`. */
  readonly isNamedDefault?: true;
  /** Reason for this default, where cri-dockerd or dockershim have another one. */
  readonly why?: string;
}

/** `DOCKERSHIM_` and the name in upper snake case. */
export function environmentName(optionName: string): string {
  return `DOCKERSHIM_${optionName.toUpperCase().replaceAll("-", "_")}`;
}

/** The text of the default for a program of this name. */
export function defaultOf(
  { isNamedDefault, criDockerdDefault, default: text }: Option<unknown>,
  name: ProgramName,
): string {
  return isNamedDefault === true && name === "cri-dockerd" ? (criDockerdDefault ?? text) : text;
}

/** Infers the type of the value from the table. */
export function option<T>(definition: Option<T>): Option<T> {
  return definition;
}
