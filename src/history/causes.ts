/** Why a pod was slow, failed or ended: one sentence for each cause, the most telling one first. Pure. */
import { groupBy } from "../lib/group-by.js";
import { formatSpan, formatTime } from "./durations.js";
import { execPauseMs } from "./exec-results.js";
import type { PodRecord } from "./find-subjects.js";
import type { CallRecord, ExitRecord, RecordedSpan } from "./history-record.js";
import { nameOfWait, startTimeOf } from "./start-time.js";

interface Facts {
  readonly records: readonly PodRecord[];
  readonly calls: readonly CallRecord[];
  readonly ends: readonly ExitRecord[];
  readonly nowMs: number;
}

interface Cause {
  /** What is higher explains more. */
  readonly weight: number;
  readonly text: string;
}

/** Longer than the pause between a call and what the engine tells of its effect. */
const toldWithinMs = 2000;
const slowStartMs = 5000;
const slowStopMs = 5000;
const hungMs = 10_000;

export function causesOf(records: readonly PodRecord[], nowMs: number): readonly string[] {
  const calls = records.filter((record) => record.kind === "call");
  const ends = records.filter((record) => record.kind === "exit");
  const facts = { records, calls, ends, nowMs };
  const causes = [
    ...[...failures(facts), ...deaths(facts), ...plugins(facts)],
    ...[...slowStart(facts), ...execs(facts), ...slowStops(facts), ...present(facts)],
  ];
  return causes.sort((a, b) => b.weight - a.weight).map(({ text }) => text);
}

const changing: ReadonlySet<string> = new Set([
  ...["RunPodSandbox", "CreateContainer", "StartContainer", "PullImage"],
  ...["StopPodSandbox", "RemovePodSandbox", "StopContainer", "RemoveContainer", "UpdateContainerResources"],
]);

/** Calls that failed; those that have not succeeded since weigh more. */
function failures({ calls, nowMs }: Facts): readonly Cause[] {
  const groups = groupBy(
    calls.filter(({ rpc }) => changing.has(rpc)),
    ({ rpc, subject: { containerName, image } }) => `${rpc} ${containerName ?? image ?? ""}`,
  );
  return [...groups.values()].flatMap((group) => {
    const failed = group.filter(({ code }) => code !== "OK");
    const last = failed.at(-1);
    if (last === undefined) return [];
    const { rpc, code, error = "", subject } = last;
    const isOver = group.at(-1)?.code === "OK";
    const name = subject.containerName ?? (rpc === "PullImage" ? subject.image : undefined);
    const what = name === undefined ? rpc : `${rpc} of "${name}"`;
    const often = `failed ${timesOf(failed.length)}${isOver ? " before it succeeded" : ""}`;
    const text = `${what} ${often}, last ${ago(last.at, nowMs)}: ${code}: ${error}`;
    return [{ weight: isOver ? 40 : rpc.startsWith("Stop") || rpc.startsWith("Remove") ? 83 : 100, text }];
  });
}

/** Exit codes of a container that another process has ended: without live-restore an engine that ends does so. */
const signals: ReadonlyMap<number, string> = new Map([
  [137, "SIGKILL"],
  [143, "SIGTERM"],
]);

/** Ends of containers that no call asked for. */
function deaths({ records, nowMs }: Facts): readonly Cause[] {
  const groups = groupBy(
    endsNotAskedFor(records),
    ({ subject }) => subject.containerName ?? subject.containerId ?? "",
  );
  return [...groups.values()].flatMap((group) => {
    const last = group.at(-1);
    if (last === undefined) return [];
    const { containerName, containerId } = last.subject;
    const name = containerId === undefined ? "the pause container" : `container "${containerName ?? ""}"`;
    const times = timesOf(group.length);
    const howLong = ({ at, ms }: ExitRecord): string =>
      `last ${ago(at, nowMs)} after it ran ${formatSpan(ms)}`;
    const oomKills = group.filter(({ oomKilled }) => oomKilled);
    const lastOomKill = oomKills.at(-1);
    if (lastOomKill !== undefined) {
      const share = oomKills.length === group.length ? "" : ` of ${String(group.length)} ends`;
      const kills = `${timesOf(oomKills.length)}${share}, ${howLong(lastOomKill)}`;
      return [{ weight: 95, text: `${name} was killed for want of memory (OOMKilled) ${kills}` }];
    }
    const ran = howLong(last);
    const words = last.error === undefined ? "" : `: ${last.error}`;
    const signal = signals.get(last.exitCode);
    const ended = signal === undefined ? "ended by itself" : "ended";
    const sender =
      signal === undefined ? "" : ` (${signal}: no call sent it, but the engine's end or the node)`;
    const text = `${name} ${ended} ${times}, ${ran}, with exit code ${last.exitCode}${sender}${words}`;
    const failed = group.filter(({ exitCode }) => exitCode !== 0).length;
    if (failed === 0) return [{ weight: group.length > 2 ? 50 : 12, text }];
    return [{ weight: failed > 1 ? 90 : 75, text }];
  });
}

const ending: ReadonlySet<string> = new Set([
  ...["StopContainer", "RemoveContainer", "StopPodSandbox", "RemovePodSandbox", "RunPodSandbox"],
]);

const wholePod = "";

/** What ended before a call is not its doing: a client stops a pod at once when its containers have ended. */
function endsNotAskedFor(records: readonly PodRecord[]): readonly ExitRecord[] {
  const askedUntil = new Map<string, number>();
  const found: ExitRecord[] = [];
  for (const record of records) {
    const scope = record.subject.containerId ?? wholePod;
    if (record.kind === "exit") {
      const untilMs = Math.max(askedUntil.get(scope) ?? 0, askedUntil.get(wholePod) ?? 0);
      if (record.at > untilMs) found.push(record);
      continue;
    }
    const { rpc, code, at, ms } = record;
    // RunPodSandbox ends what it had made.
    if (!ending.has(rpc) || (rpc === "RunPodSandbox" && code === "OK")) continue;
    askedUntil.set(scope, Math.max(askedUntil.get(scope) ?? 0, at + ms + toldWithinMs));
  }
  return found;
}

/** `DEL of bridge hung 30 s, retried 3 times`. */
function plugins({ calls }: Facts): readonly Cause[] {
  const runs = calls.flatMap(({ spans }) => flatten(spans)).filter(({ kind }) => kind === "plugin");
  return [...groupBy(runs, ({ what, kind }) => nameOfWait(what, kind)).values()].flatMap((group) => {
    const bad = group.filter(isBadRun);
    const [last, lastBad] = [group.at(-1), bad.at(-1)];
    if (last === undefined || lastBad === undefined) return [];
    const { what, kind, error } = lastBad;
    const longest = longestOf(bad);
    const name = nameOfWait(what, kind);
    // The pod went on: what failed or ended since explains more.
    if (error === undefined)
      return [{ weight: isBadRun(last) ? 81 : 41, text: `${name} took ${formatSpan(longest)}` }];
    const how = longest >= hungMs ? `hung ${formatSpan(longest)}` : "failed";
    const again = bad.length === 1 ? "" : `, retried ${timesOf(bad.length - 1)}`;
    return [{ weight: isBadRun(last) ? 102 : 41, text: `${name} ${how}${again}: ${error}` }];
  });
}

function isBadRun({ error, ms }: RecordedSpan): boolean {
  return error !== undefined || ms >= hungMs;
}

function slowStart({ records }: Facts): readonly Cause[] {
  const start = startTimeOf(records);
  if (start === undefined) return [];
  const share = Math.round((100 * start.longest.ms) / Math.max(start.ms, 1));
  const until = start.ran ? " until its containers ran" : ", in which no container was started";
  const text = `${share} % of ${formatSpan(start.ms)}${until}: ${start.longest.what}`;
  return [{ weight: start.ms >= slowStartMs ? 80 : 10, text }];
}

function execs({ calls, ends, nowMs }: Facts): readonly Cause[] {
  const runs = calls.filter(({ rpc }) => rpc === "ExecSync");
  return [...groupBy(runs, ({ subject }) => subject.containerName ?? "").values()].flatMap((group) => {
    const last = group.findLast(isBadExec);
    if (last === undefined) {
      const slowest = longestOf(group);
      if (slowest < slowStopMs) return [];
      const name = group[0]?.subject.containerName ?? "";
      return [{ weight: 45, text: `an exec probe or hook of "${name}" took ${formatSpan(slowest)}` }];
    }
    const { exitCode, code, subject } = last;
    const name = subject.containerName ?? "";
    const recorded = group.filter(isBadExec).reduce((count, { repeats = 0 }) => count + 1 + repeats, 0);
    const count = ends
      .filter(({ subject: its }) => (its.containerName ?? "") === name)
      .reduce((sum, { failedExecs = 0 }) => sum + failedExecs, recorded);
    const result = code === "OK" ? `exit code ${exitCode ?? 0}` : code;
    const text = `exec probes or hooks of "${name}" failed ${timesOf(count)}`;
    const stopped = calls.find(
      ({ rpc, at, subject: its }) =>
        rpc === "StopContainer" &&
        its.containerId === subject.containerId &&
        at >= last.at &&
        at - last.at <= execPauseMs,
    );
    const then = stopped === undefined ? "" : "; then the client stopped the container";
    return [
      {
        weight: stopped === undefined ? 46 : 82,
        text: `${text}, as ${ago(last.at, nowMs)} with ${result} after ${formatSpan(last.ms)}${then}`,
      },
    ];
  });
}

function isBadExec({ code, exitCode = 0 }: CallRecord): boolean {
  return code !== "OK" || exitCode !== 0;
}

function slowStops({ calls }: Facts): readonly Cause[] {
  return calls
    .filter(({ rpc, ms, code }) => rpc.startsWith("Stop") && ms >= slowStopMs && code === "OK")
    .slice(-1)
    .map(({ rpc, ms, subject: { containerName } }) => {
      const name = containerName === undefined ? rpc : `${rpc} of "${containerName}"`;
      return { weight: 55, text: `${name} took ${formatSpan(ms)}` };
    });
}

/** What became of the pod. */
function present({ calls, nowMs }: Facts): readonly Cause[] {
  const first = calls[0];
  const last = calls.findLast(
    ({ rpc, code }) => code === "OK" && ["RunPodSandbox", "StopPodSandbox", "RemovePodSandbox"].includes(rpc),
  );
  if (first === undefined || last === undefined || last.rpc === "RunPodSandbox") return [];
  const what = last.rpc === "StopPodSandbox" ? "stopped" : "removed";
  const lived = formatSpan(last.at + last.ms - first.at);
  return [
    { weight: 15, text: `the client ${what} the pod ${ago(last.at, nowMs)}, ${lived} after its first call` },
  ];
}

function ago(at: number, nowMs: number): string {
  return `${formatSpan(nowMs - at)} ago (${formatTime(at, nowMs)})`;
}

function timesOf(count: number): string {
  return count === 1 ? "once" : count === 2 ? "twice" : `${count} times`;
}

/** Not by arguments of one call: there may be more than those can be. */
function longestOf(items: readonly { readonly ms: number }[]): number {
  return items.reduce((most, { ms }) => Math.max(most, ms), 0);
}

export function flatten(spans: readonly RecordedSpan[]): readonly RecordedSpan[] {
  return spans.flatMap((span) => [span, ...flatten(span.below ?? [])]);
}
