/** `dockershim pod ps` and `dockershim pod wait`: pods as they are, and as they become. */
import { findPods } from "../pod-commands/find-pod.js";
import type { PodName, PodSelection } from "../pod-commands/pod-names.js";
import { type PodSummary, renderPods, summarize } from "../pod-commands/pod-summary.js";
import { formatDuration, sleep } from "../../lib/abort.js";
import { isKind, ShimError } from "../../lib/errors.js";
import { shownText } from "../../lib/shown-text.js";
import { keptOf, type PodContext, type RequestOf, type WaitFor } from "./pod-context.js";

/** Servers need not have events. */
const pollMs = 1000;

export async function listPods(
  { selection, output, headers, watch }: RequestOf<"ps">,
  context: PodContext,
  everyMs = pollMs,
): Promise<number> {
  const { print, signal } = context;
  const shown = new Map<string, string>();
  for (let isFirst = true; ; isFirst = false) {
    const looked = summaries(selection, context);
    // A pod that was there, and is named, may be made again.
    const pods = await (isFirst ? looked : looked.catch(noneIfMissing));
    if (!watch) {
      print(await renderPods(pods, { output, headers, now: Date.now() }));
      return 0;
    }
    // Of the whole table, so that columns stay where they are; the first line is the header.
    const text = await renderPods(pods, { output, headers: true, now: Date.now() });
    const lines = text.trimEnd().split("\n");
    const header = output === "name" ? [] : lines.splice(0, 1);
    const changed = lines.filter((_, index) => hasChanged(pods[index], shown));
    const printed = [...(isFirst && headers ? header : []), ...changed];
    print(printed.map((line) => `${line}\n`).join(""));
    await sleep(everyMs, signal);
  }
}

function noneIfMissing(error: unknown): readonly PodSummary[] {
  if (isKind(error, "notFound")) return [];
  throw error;
}

/** Ages change by themselves. */
function hasChanged(pod: PodSummary | undefined, shown: Map<string, string>): boolean {
  if (pod === undefined) return false;
  const key = `${pod.namespace}/${pod.name}`;
  const { status, readyContainers, wantedContainers, restarts, addresses, sandbox } = pod;
  const state = JSON.stringify([status, readyContainers, wantedContainers, restarts, addresses, sandbox]);
  const before = shown.get(key);
  shown.set(key, state);
  return before !== state;
}

async function summaries(selection: PodSelection, context: PodContext): Promise<readonly PodSummary[]> {
  const { client, signal } = context;
  const pods = await findPods(client, selection, signal);
  const now = Date.now();
  return Promise.all(
    pods.map(async (pod) => {
      const kept = await keptOf(pod, context);
      try {
        return summarize(pod, await client.podSandboxStatus(pod.sandbox.id, signal), kept, now);
      } catch (error) {
        if (isKind(error, "notFound")) return summarize(pod, undefined, kept, now); // Removed since it was listed.
        throw error;
      }
    }),
  );
}

/** The exit code is 1 when the time is over before all are as they should be. */
export async function waitForPods(request: RequestOf<"wait">, context: PodContext): Promise<number> {
  const { client, print, report, signal } = context;
  const { selection, timeoutMs } = request;
  const end = performance.now() + timeoutMs;
  const named: readonly PodName[] =
    selection.pods.length > 0 ? selection.pods : await findPods(client, selection, signal);
  if (named.length === 0) throw new ShimError("notFound", "no pod is there to wait for");
  const left = new Map(named.map((name) => [nameOf(name), { name, state: "" }]));
  for (;;) {
    for (const [text, pod] of left) {
      const { isMet, state } = await look(pod.name, request.for, context);
      pod.state = state;
      if (!isMet) continue;
      left.delete(text);
      print(`${shownText(text)}: ${request.for.what === "delete" ? "deleted" : "condition met"}\n`);
    }
    if (left.size === 0) return 0;
    const rest = end - performance.now();
    if (rest <= 0) break;
    await sleep(Math.min(pollMs, rest), signal);
  }
  for (const [text, { state }] of left)
    report(`${shownText(text)}: not met within ${formatDuration(timeoutMs)}: ${shownText(state)}`);
  return 1;
}

function nameOf({ namespace, name, kind }: PodName): string {
  return kind === undefined ? `${namespace}/${name}` : `${kind} ${namespace}/${name}`;
}

async function look(
  name: PodName,
  wanted: WaitFor,
  context: PodContext,
): Promise<{ readonly isMet: boolean; readonly state: string }> {
  try {
    const pods = await summaries({ pods: [name], namespace: undefined, labels: [] }, context);
    return {
      isMet: pods.every((pod) => isAs(pod, wanted)),
      state: pods.map(({ status }) => status).join(", "),
    };
  } catch (error) {
    if (wanted.what === "delete" && isKind(error, "notFound")) return { isMet: true, state: "" };
    throw error;
  }
}

function isAs({ phase, readyContainers, wantedContainers }: PodSummary, wanted: WaitFor): boolean {
  if (wanted.what === "phase") return phase === wanted.phase;
  return wanted.what === "ready" && phase === "Running" && readyContainers >= wantedContainers;
}
