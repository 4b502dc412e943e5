/** What `dockershim doctor` says of a node. The shape is part of `--json`: keys are added, never renamed. */

/** Each may be asked for alone. */
export const parts = ["server", "engine", "reach", "kubelet", "network", "node", "ulimits"] as const;
export type Part = (typeof parts)[number];

/**
 * `note`: to be known. `warning`: something pods may ask for does not work, or will stop to work. `error`: pods
 * do not start, do not reach each other or are not seen by the kubelet.
 */
export type Severity = "note" | "warning" | "error";

/** From the worst to the harmless. */
export const severities = ["error", "warning", "note"] as const satisfies readonly Severity[];

export interface Finding {
  /** Stable, for scripts. */
  readonly check: string;
  readonly part: Part;
  readonly severity: Severity;
  readonly what: string;
  readonly meaning: string;
  /** What to type or to edit. */
  readonly remedy: string;
}

export type Draft = Omit<Finding, "check" | "part">;

/** A pure function of what was read of the node. */
export interface Check<Facts> {
  readonly id: string;
  readonly part: Part;
  readonly judge: (facts: Facts) => readonly Draft[];
}
