/** What a shadow has seen, by RPC and field. Its size has a limit, however long it runs. */
import type { Difference } from "../answers/compare-answers.js";

/** One kind of difference: of one RPC, field and, where it is intended, reason. */
export interface ReportedDifference {
  readonly rpc: string;
  /** Path in the answer; `[]` stands for any entry of a list. */
  readonly field: string;
  readonly intended?: { readonly key: string; readonly reason: string };
  count: number;
  /** RFC 3339. */
  readonly first: string;
  last: string;
  readonly examples: DifferenceExample[];
}

export interface DifferenceExample {
  readonly subject: string;
  readonly field: string;
  /** The two answers: JSON, cut after 300 characters. */
  readonly primary: string;
  readonly shadow: string;
}

export interface RpcCounts {
  /** Calls of clients. */
  observed: number;
  compared: number;
  equal: number;
  /** Differences that were gone when both were asked again. */
  passing: number;
  /** Differences that could not be asked for again in time, and are not among the differences. */
  unconfirmed: number;
  /** Not compared, because too many waited. */
  skipped: number;
}

export interface ShadowReport {
  readonly format: "dockershim-shadow-report";
  readonly version: 1;
  readonly startedAt: string;
  updatedAt: string;
  /** True when the shadow ended in order. */
  complete: boolean;
  primary: { readonly socket: string; readonly server: string };
  shadow: { readonly socket: string; readonly server: string };
  rpcs: Record<string, RpcCounts>;
  differences: ReportedDifference[];
  /** Kinds of differences that found no room. */
  moreKinds: number;
  /** Questions that this program did not answer. */
  unanswered: { count: number; last: string };
  /** By the relay: calls and connections that were not observed. */
  unobserved: { readonly dropped: number; readonly givenUp: number };
  /** Starts of the observing process, and what each missed. */
  starts: number;
}

export const largestExamples = 3;
const largestKinds = 500;
const largestValue = 300;
/** Names of RPCs come from the protocol's table, so there are few. */

export class ReportBuilder {
  readonly #kinds = new Map<string, ReportedDifference>();

  constructor(readonly report: ShadowReport) {
    for (const kind of report.differences) this.#kinds.set(keyOf(kind), kind);
  }

  /** Counts of what is held. */
  get sizes(): Readonly<Record<string, number>> {
    const { rpcs } = this.report;
    const examples = [...this.#kinds.values()].reduce((sum, kind) => sum + kind.examples.length, 0);
    return { kinds: this.#kinds.size, rpcs: Object.keys(rpcs).length, examples };
  }

  counts(rpc: string): RpcCounts {
    const none = { observed: 0, compared: 0, equal: 0, passing: 0, unconfirmed: 0, skipped: 0 };
    return (this.report.rpcs[rpc] ??= none);
  }

  /** Whether the kind of the difference is known, so that it need not be confirmed again. */
  isKnown(difference: Difference): boolean {
    return this.#kinds.has(keyOf(kindOf(difference)));
  }

  /** Whether the difference would be an example. */
  wantsExample(difference: Difference): boolean {
    const kind = this.#kinds.get(keyOf(kindOf(difference)));
    return kind === undefined || kind.examples.length < largestExamples;
  }

  /** `example`: the same difference between answers without secrets. */
  add(difference: Difference, example: Difference | undefined, now: string): void {
    const { field } = difference;
    const key = keyOf(kindOf(difference));
    let kind = this.#kinds.get(key);
    if (kind === undefined) {
      if (this.#kinds.size >= largestKinds) {
        this.report.moreKinds += 1;
        return;
      }
      kind = { ...kindOf(difference), count: 0, first: now, last: now, examples: [] };
      this.#kinds.set(key, kind);
      this.report.differences.push(kind);
    }
    kind.count += 1;
    kind.last = now;
    const isNew = kind.examples.every(({ subject }) => subject !== difference.subject);
    if (example === undefined || !isNew || kind.examples.length >= largestExamples) return;
    kind.examples.push({
      subject: shown(example.subject),
      field: shown(field),
      primary: shown(JSON.stringify(example.left)),
      shadow: shown(JSON.stringify(example.right)),
    });
  }
}

type Kind = Pick<ReportedDifference, "rpc" | "field" | "intended">;

/** Keys of entries differ from pod to pod. */
function kindOf({ rpc, field, intended }: Difference): Kind {
  const pattern = shown(field.replaceAll(/\[[^\]]*\]/g, "[]"));
  return { rpc, field: pattern, ...(intended && { intended }) };
}

/** A field may differ as intended in one pod, and otherwise in another. */
function keyOf({ rpc, field, intended }: Kind): string {
  return `${rpc} ${field} ${intended?.key ?? ""}`;
}

function shown(text: string | undefined): string {
  return text === undefined ? "" : text.length > largestValue ? `${text.slice(0, largestValue)}…` : text;
}
