/** Asks this program what clients asked the primary, and compares the answers. */
import type { UnaryRpc } from "../../client/cri-connection.js";
import { sleep } from "../../lib/abort.js";
import type { PipedCall } from "../relay/call-pipe.js";
import type { CompareOptions, Difference } from "../answers/compare-answers.js";
import { decodeCall } from "../relay/cri-messages.js";
import type { Redactor } from "../record/redact.js";
import type { ReportBuilder } from "./shadow-report.js";

/** The RPCs that change nothing and have one answer. */
export const readOnlyRpcs: ReadonlySet<string> = new Set<UnaryRpc>([
  "Version",
  "Status",
  "RuntimeConfig",
  "ListPodSandbox",
  "PodSandboxStatus",
  "ListContainers",
  "ContainerStatus",
  "ListContainerStats",
  "ContainerStats",
  "ListPodSandboxStats",
  "PodSandboxStats",
  "ListMetricDescriptors",
  "ListPodSandboxMetrics",
  "ListImages",
  "ImageStatus",
  "ImageFsInfo",
]);

/** An answer, or the error in its place (`ErrorAnswer`). Throws when the server does not answer. */
export type Ask = (rpc: UnaryRpc, request: object, signal: AbortSignal) => Promise<object>;

export interface ShadowComparisonOptions {
  readonly askPrimary: Ask;
  readonly askShadow: Ask;
  readonly compare: (rpc: string, left: object, right: object, options: CompareOptions) => Difference[];
  readonly compareOptions: CompareOptions;
  readonly report: ReportBuilder;
  readonly redactor: Redactor;
  /** RFC 3339. */
  readonly now: () => string;
  /** Between a difference and the second question. */
  readonly settleMs?: number;
}

/** Calls that wait for their comparison. */
const largestQueue = 200;
const largestQueueBytes = 32 * 1024 * 1024;
const atOnce = 4;
/** Pairs of further questions that wait. Each is a load on the primary, which the client did not cause. */
const largestConfirmations = 4;

export class ShadowComparison {
  readonly #queue: PipedCall[] = [];
  #queuedBytes = 0;
  readonly #running = new Set<Promise<void>>();
  readonly #confirming = new Set<Promise<void>>();
  readonly #stop = new AbortController();

  constructor(private readonly options: ShadowComparisonOptions) {}

  get sizes(): Readonly<Record<string, number>> {
    return { queue: this.#queue.length, running: this.#running.size, confirming: this.#confirming.size };
  }

  /** Never waits: a call for which there is no room is counted and left out. */
  offer(call: PipedCall): void {
    const { report } = this.options.report;
    report.unobserved = call.unobserved;
    const rpc = /\/(\w+)$/.exec(call.path)?.[1] ?? "";
    if (!readOnlyRpcs.has(rpc) || call.end !== "answered") return;
    const counts = this.options.report.counts(rpc);
    counts.observed += 1;
    const isFull = this.#queuedBytes + bytesOf(call) > largestQueueBytes && this.#queue.length > 0;
    if (isFull || this.#queue.length >= largestQueue) {
      counts.skipped += 1;
      return;
    }
    this.#queue.push(call);
    this.#queuedBytes += bytesOf(call);
    this.#next();
  }

  /** Ends the questions under way. */
  async stop(): Promise<void> {
    this.#queue.length = 0;
    this.#queuedBytes = 0;
    this.#stop.abort();
    await this.settled();
  }

  async settled(): Promise<void> {
    while (this.#running.size + this.#confirming.size > 0)
      await Promise.allSettled([...this.#running, ...this.#confirming]);
  }

  #next(): void {
    while (this.#running.size < atOnce) {
      const call = this.#queue.shift();
      if (call === undefined) return;
      this.#queuedBytes -= bytesOf(call);
      const work = this.#compare(call)
        .catch((error: unknown) => {
          if (this.#stop.signal.aborted) return;
          const { unanswered } = this.options.report.report;
          unanswered.count += 1;
          unanswered.last = `${this.options.now()} ${error instanceof Error ? error.message.slice(0, 300) : ""}`;
        })
        .finally(() => {
          this.#running.delete(work);
          this.#next();
        });
      this.#running.add(work);
    }
  }

  async #compare(call: PipedCall): Promise<void> {
    const { askShadow, report } = this.options;
    const decoded = decodeCall(call);
    if (decoded?.request === undefined || decoded.isIncomplete) return;
    const { rpc, request, responses } = decoded;
    const { status } = call;
    const left = status !== undefined && status.code !== 0 ? { error: status } : responses[0];
    if (left === undefined) return;
    const right = await askShadow(rpc as UnaryRpc, request, this.#stop.signal);
    const subject = subjectOf(request);
    const differences = this.#differences(rpc, left, right, subject);
    const counts = report.counts(rpc);
    counts.compared += 1;
    if (differences.length === 0) {
      counts.equal += 1;
      return;
    }
    // What is intended needs no proof, and would leave no room for the questions about the rest.
    const known = differences.filter(
      (difference) => difference.intended !== undefined || report.isKnown(difference),
    );
    this.#report(known, { rpc, left, right, subject });
    if (known.length < differences.length) {
      const unknown = differences.filter((difference) => !known.includes(difference));
      this.#confirm(rpc as UnaryRpc, request, subject, unknown);
    }
  }

  /** What differs a second time, when both are asked at once, is reported. */
  #confirm(rpc: UnaryRpc, request: object, subject: string, before: readonly Difference[]): void {
    const { report, settleMs = 1000 } = this.options;
    const counts = report.counts(rpc);
    if (this.#confirming.size >= largestConfirmations) {
      counts.unconfirmed += 1;
      return;
    }
    const work = this.#askBoth(rpc, request, settleMs)
      .then(([left, right]) => {
        const again = this.#differences(rpc, left, right, subject);
        const confirmed = again.filter(({ field, subject: of }) =>
          before.some((difference) => difference.field === field && difference.subject === of),
        );
        if (confirmed.length === 0) counts.passing += 1;
        this.#report(confirmed, { rpc, left, right, subject });
      })
      .catch(() => {
        counts.unconfirmed += 1;
      })
      .finally(() => this.#confirming.delete(work));
    this.#confirming.add(work);
  }

  async #askBoth(rpc: UnaryRpc, request: object, settleMs: number): Promise<[object, object]> {
    const { askPrimary, askShadow } = this.options;
    const { signal } = this.#stop;
    await sleep(settleMs, signal);
    return Promise.all([askPrimary(rpc, request, signal), askShadow(rpc, request, signal)]);
  }

  #differences(rpc: string, left: object, right: object, subject: string): Difference[] {
    const { compare, compareOptions } = this.options;
    return compare(rpc, left, right, { ...compareOptions, subject });
  }

  #report(differences: readonly Difference[], { rpc, left, right, subject }: Answers): void {
    const { report, redactor, now } = this.options;
    if (differences.length === 0) return;
    // Answers contain annotations with credentials. Redacting costs more than comparing, so only examples are.
    const examples = differences.some((difference) => report.wantsExample(difference))
      ? this.#differences(rpc, redacted(redactor, left), redacted(redactor, right), subject)
      : [];
    for (const difference of differences) {
      const example = examples.find(
        ({ field, subject: of }) => field === difference.field && of === difference.subject,
      );
      report.add(difference, example, now());
    }
  }
}

function bytesOf({ requests, responses }: PipedCall): number {
  return [...requests, ...responses].reduce((sum, { bytes }) => sum + bytes.length, 0);
}

interface Answers {
  readonly rpc: string;
  readonly left: object;
  readonly right: object;
  readonly subject: string;
}

function redacted(redactor: Redactor, answer: object): object {
  return redactor.message(answer);
}

/** The subject of answers that name nothing, such as errors. */
function subjectOf(request: object): string {
  const id: unknown = Object.entries(request).find(([name]) =>
    /^(?:pod_sandbox_id|container_id)$/.test(name),
  )?.[1];
  return typeof id === "string" && id !== "" ? id.slice(0, 64) : "server";
}
