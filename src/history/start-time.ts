/** Where the time of a pod's start went. Pure. */
import { parseReference } from "../domain/image-reference.js";
import { groupBy } from "../lib/group-by.js";
import type { PodRecord } from "./find-subjects.js";
import type { CallRecord, ExitRecord, RecordedSpan } from "./history-record.js";

export interface StartTime {
  readonly ms: number;
  /** Whether a container was started. */
  readonly ran: boolean;
  /** The largest part, and what it went to. */
  readonly longest: { readonly ms: number; readonly what: string };
}

interface Part {
  readonly what: string;
  readonly from: number;
  readonly to: number;
}

/** From the first call until each container was started once, or until the last call before that. */
export function startTimeOf(records: readonly PodRecord[]): StartTime | undefined {
  const calls = startCalls(records);
  const [first] = calls;
  if (first === undefined) return undefined;
  const ends = records.filter((record) => record.kind === "exit");
  const parts = [...calls.flatMap(partsOf), ...gapsBetween(calls, ends)];
  const endMs = calls.reduce((latest, call) => Math.max(latest, endOf(call)), first.at);
  let longest = { what: nameOfCall(first), ms: 0 };
  for (const [what, its] of groupBy(parts, ({ what }) => what)) {
    const ms = lengthOf(its);
    if (ms > longest.ms) longest = { what, ms };
  }
  return { ms: endMs - first.at, ran: calls.some(startsContainer), longest };
}

function endOf({ at, ms }: CallRecord): number {
  return at + ms;
}

const ofStart: ReadonlySet<string> = new Set([
  "RunPodSandbox",
  "PullImage",
  "CreateContainer",
  "StartContainer",
]);

/** Without a call or an end for as long, a start is over: an ephemeral container of a debugger comes hours later. */
const settledMs = 10 * 60_000;

function startCalls(records: readonly PodRecord[]): readonly CallRecord[] {
  const calls: CallRecord[] = [];
  const started = new Set<string>();
  let [last, latestMs] = [0, 0];
  for (const record of records) {
    if (record.kind !== "call") {
      latestMs = Math.max(latestMs, record.at);
      continue;
    }
    const { rpc, subject } = record;
    // What comes then is an end, or a start anew.
    if (rpc === "StopPodSandbox" || rpc === "RemovePodSandbox") break;
    if (!ofStart.has(rpc)) continue;
    if (last > 0 && last === calls.length && record.at - latestMs > settledMs) break;
    latestMs = Math.max(latestMs, endOf(record));
    calls.push(record);
    if (!startsContainer(record) || started.has(subject.containerName ?? "")) continue;
    started.add(subject.containerName ?? "");
    last = calls.length;
  }
  return last === 0 ? calls : calls.slice(0, last);
}

function startsContainer({ rpc, code }: CallRecord): boolean {
  return rpc === "StartContainer" && code === "OK";
}

/** What a call waited for, each by its outermost name that says something; the rest is the call's own. */
function partsOf(call: CallRecord): readonly Part[] {
  const waits = call.spans.flatMap((span) => waitsOf(span, call));
  const own = nameOfCall(call);
  let from = call.at;
  const rest: Part[] = [];
  for (const wait of [...waits].sort((a, b) => a.from - b.from)) {
    if (wait.from > from) rest.push({ what: own, from, to: wait.from });
    from = Math.max(from, wait.to);
  }
  return [...waits, ...rest, { what: own, from, to: Math.max(from, endOf(call)) }];
}

function waitsOf(span: RecordedSpan, call: CallRecord): readonly Part[] {
  const { kind, below = [], what, at, ms } = span;
  if (kind === "wait" && below.length > 0) return below.flatMap((one) => waitsOf(one, call));
  return [{ what: nameOfWait(what, kind), from: call.at + at, to: call.at + at + ms }];
}

function nameOfCall({ rpc, subject: { image, containerName } }: CallRecord): string {
  if (rpc === "PullImage" && image !== undefined) return nameOfPull(image);
  return containerName === undefined ? rpc : `${rpc} of "${containerName}"`;
}

/** `DEL of bridge`, `pull of X from Y`; else the wait's own words. */
export function nameOfWait(what: string, kind: RecordedSpan["kind"]): string {
  if (kind === "pull") return nameOfPull(/^pull image "(.*)"$/.exec(what)?.[1] ?? what);
  const [, plugin, command] = /^CNI plugin "(.*?)" ([A-Z]+)/.exec(what) ?? [];
  if (plugin !== undefined && command !== undefined) return `${command} of ${plugin}`;
  return kind === "engine" ? `the engine, to ${what}` : what;
}

function nameOfPull(image: string): string {
  const registry = parseReference(image)?.registry;
  return registry === undefined ? `pull of ${image}` : `pull of ${image} from ${registry}`;
}

/** No call was under way: an init container ran, or the client had other things to do. Both in order of time. */
function gapsBetween(calls: readonly CallRecord[], ends: readonly ExitRecord[]): readonly Part[] {
  const gaps: Part[] = [];
  let [to, next] = [calls[0]?.at ?? 0, 0];
  for (const call of calls) {
    const from = to;
    if (call.at > from) {
      while ((ends[next]?.at ?? Infinity) <= from) next += 1;
      const end = ends[next];
      const ended = end !== undefined && end.at <= call.at ? end.subject.containerName : undefined;
      const what = ended === undefined ? `no call before ${nameOfCall(call)}` : `"${ended}", until it ended`;
      gaps.push({ what, from, to: call.at });
    }
    to = Math.max(to, endOf(call));
  }
  return gaps;
}

/** Parts may overlap. */
function lengthOf(parts: readonly Part[]): number {
  let [sum, end] = [0, -Infinity];
  for (const { from, to } of [...parts].sort((a, b) => a.from - b.from)) {
    sum += Math.max(0, to - Math.max(from, end));
    end = Math.max(end, to);
  }
  return sum;
}
