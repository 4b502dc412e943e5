/** `play` without `--down`: makes the pods, shows them, and stays their kubelet as long as the user wants. */
import { isDeepStrictEqual } from "node:util";
import { linkAbort, withDeadline, inBackground } from "../../lib/abort.js";
import { isKind, messageOf, ShimError } from "../../lib/errors.js";
import { Notify } from "../../lib/sync/notify.js";
import { refuseBusyPorts } from "../session/busy-ports.js";
import { type CriClient, connect } from "../cri/client.js";
import { systemClock } from "../kubelet/clock.js";
import type { Kubelet } from "../kubelet/kubelet.js";
import type { ManifestFile } from "../manifests/documents.js";
import { nameOf } from "../manifests/manifest.js";
import { parseReplicas } from "../manifests/manifest-files.js";
import { summarizeNotices } from "../manifests/notices.js";
import { readWorkloads } from "../manifests/read-manifests.js";
import type { Workloads } from "../manifests/workloads.js";
import { namesOf } from "../store/play-store.js";
import { removeSurplus } from "../session/remove-pods.js";
import { type PublishedPort, publishedHeader, publishedRow } from "../services/publish-ports.js";
import { Services } from "../services/services.js";
import { Session } from "../session/session.js";
import { drained } from "../view/drained.js";
import type { LogFollower } from "../view/follow-logs.js";
import { formatTable } from "../view/format-table.js";
import { LiveTable } from "../view/live-table.js";
import { renderPlayedPods } from "../view/pod-table.js";
import { PullProgress } from "../view/pull-progress.js";
import { AttachedPlay } from "./attached-play.js";
import { type PlayContext, type PlayOptions, readFilesOf, sameFiles } from "./play-context.js";
import { readKubeletDeps, renewFacts } from "./play-deps.js";
import { openEngineAccess } from "./open-engine-access.js";
import type { EngineAccess } from "./engine-access.js";

type Played = Workloads & { readonly published: readonly PublishedPort[] };

/** The files as they were read last; with `--watch` they change. */
interface Read {
  texts: readonly ManifestFile[];
  workloads: Played;
}

interface Progress {
  isApplied: boolean;
  /** Something that the files do not ask for any more could not be removed. */
  hasSurplus: boolean;
  /** Names of what this play still has. */
  kept: () => Promise<ReadonlySet<string>>;
}

/** Where lines for the user go: above the table as long as there is one. */
interface Shown {
  report: (line: string) => void;
}

const logsAreRemote =
  'logs are not shown: they are on the host of the CRI server, where "dockershim pod logs" shows them';

export async function playUp(context: PlayContext): Promise<number> {
  const { options, io } = context;
  // What few plays need is loaded late.
  if (options.watch === true) {
    const { checkWatched } = await import("../manifests/watch-files.js");
    await checkWatched(options.files);
  }
  const timeline = options.timeline === undefined ? undefined : await import("./timeline-file.js");
  if (options.timeline !== undefined) await timeline?.checkTimelineFile(options.timeline);
  const shown: Shown = { report: context.report };
  const report = (line: string): void => shown.report(line);
  const client = connect(options.endpoint);
  using _connection = { [Symbol.dispose]: () => client.close() };
  // The server answers while the files are read, whose errors come first.
  const server = inBackground(client.status(io.signal));
  const texts = await readFilesOf(context);
  const read: Read = { texts, workloads: await readPlayed(texts, options, report) };
  const names = namesOf(read.workloads);
  const attached = new AttachedPlay({ ...context, report });
  const progress: Progress = { isApplied: false, hasSurplus: false, kept: () => Promise.resolve(new Set()) };
  try {
    const status = await server; // So that a missing server is the first error.
    const pulls = new PullProgress(client, systemClock);
    const { endpoint, dockerEndpoint } = options;
    const paths = { endpoint, dockerEndpoint, directories: context.directories, report };
    await using access = await openEngineAccess(client, status, paths, io.signal);
    if (options.follow && access.engine?.seesLogs === false) report(logsAreRemote);
    const deps = (await readKubeletDeps(pulls.followed(client), access, { report, status }, io.signal))(
      options,
    );
    await using services = new Services(read.workloads.services, deps);
    await services.adopt(read.workloads.pods, io.signal);
    await using session = new Session({ ...deps, services });
    progress.kept = () => session.kept();
    using _services = services.attach(session.kubelet);
    await using _timeline = timeline?.drawTimeline(session.kubelet, options.timeline);
    using table = new LiveTable({
      pods: () => session.kubelet.pods,
      environment: process.env,
      clock: systemClock,
      screen: io.stderr,
      output: io.stdout,
      pulls,
    });
    using _table = session.kubelet.listen(table);
    using _shown = redirect(shown, table);
    await using logs = options.follow ? await followLogs(table, access, { ...context, report }) : undefined;
    using _logs = logs && session.kubelet.listen(logs);
    const apply = async (signal: AbortSignal): Promise<void> => {
      await refuseBusyPorts(read.workloads.pods, { ...deps, isBusy: access.isPortBusy }, signal);
      await attached.claim(names);
      await session.apply(read.workloads, { keep: options.keep ?? false }, signal);
      progress.isApplied = true;
      await attached.applied(read.texts, names);
      progress.hasSurplus =
        (await removeSurplus(read.texts, read.workloads.pods, deps, io.signal)).failed > 0;
    };
    await (options.waitMs === undefined
      ? apply(io.signal)
      : applyUntilReady(session, apply, { milliseconds: options.waitMs, progress }, { ...context, report }));
    await print(session.kubelet, read.workloads, { client, host: access.engine?.host }, context);
    if (options.detach === true && session.waiting.length > 0) {
      const waiting = session.waiting.map(nameOf).join(", ");
      report(`${waiting}: the supervisor makes each when the one before it is ready`);
    }
    if (options.detach === true || (options.waitMs !== undefined && !options.follow))
      return progress.hasSurplus ? 1 : 0;
    if (options.watch === true) {
      const renewNode = (): Promise<void> => renewFacts(deps.node, access);
      await watchFiles(read, { attached, session, services, renewNode }, { ...context, report });
    }
    const code = await waitForEnd(session, attached.isDetached, { ...context, report });
    return progress.hasSurplus ? 1 : code;
  } finally {
    await attached.end(read.texts, progress.isApplied ? await progress.kept() : undefined);
  }
}

/** With one line for each reason why something is passed over. */
export async function readPlayed(
  texts: readonly ManifestFile[],
  options: PlayOptions,
  report: (line: string) => void,
): Promise<Played> {
  const { strict = false, schedule = false, localVolumes = false } = options;
  const replicas = parseReplicas(options.replicas ?? []);
  const workloads = await readWorkloads(texts, { replicas, strict, schedule, localVolumes });
  const { notices, ...planned } = Services.plan(workloads, { strict });
  for (const line of summarizeNotices([...workloads.notices, ...notices])) report(line);
  return { ...workloads, ...planned };
}

async function followLogs(
  table: LiveTable,
  { files, directories }: EngineAccess,
  { io, report }: PlayContext,
): Promise<LogFollower> {
  const { LogFollower } = await import("../view/follow-logs.js");
  return new LogFollower({
    files,
    directories,
    clock: systemClock,
    report,
    output: (line) => table.log(line),
    pace: () => drained(io.stdout, io.signal),
  });
}

function redirect(shown: Shown, table: LiveTable): Disposable {
  const before = shown.report;
  shown.report = (line) => table.report(line);
  return {
    [Symbol.dispose]: () => {
      shown.report = before;
    },
  };
}

/** When the time is over, the pods stay. */
async function applyUntilReady(
  session: Session,
  apply: (signal: AbortSignal) => Promise<void>,
  { milliseconds, progress }: { readonly milliseconds: number; readonly progress: Progress },
  { io, options, report }: PlayContext,
): Promise<void> {
  try {
    await withDeadline(io.signal, milliseconds, "wait until all are ready", async (limit) => {
      await apply(limit);
      await session.ready(limit);
    });
  } catch (error) {
    // What was not applied is removed, and reported where that happens.
    if (io.signal.aborted && progress.isApplied) {
      const words = sameFiles(options);
      report(`interrupted; not ready: ${session.unready().join(", ") || "none"}; the pods stay`);
      report(`go on with "dockershim play ${words}", remove them with "dockershim play --down ${words}"`);
    }
    if (!isKind(error, "timeout")) throw error;
    throw new ShimError(
      "timeout",
      `${messageOf(error)}; not ready: ${session.unready().join(", ")}; the pods stay: see "dockershim pod describe NAME"`,
    );
  }
}

async function print(
  { pods }: Kubelet,
  { published }: Played,
  { client, host }: { readonly client: CriClient; readonly host: string | undefined },
  { options, io }: PlayContext,
): Promise<void> {
  const { output = "table", waitMs, detach } = options;
  if (waitMs === undefined && detach !== true && io.stderr.isTTY === true) return;
  const isObject = output === "json" || output === "yaml";
  const runtimeName = isObject ? (await client.version(io.signal)).runtime_name : "";
  io.stdout.write(await renderPlayedPods(pods, output, { now: Date.now(), runtimeName }));
  if (published.length === 0 || output !== "table") return;
  io.stdout.write(`\n${formatTable([publishedHeader, ...published.map((one) => publishedRow(one, host))])}`);
}

/** Stays the kubelet of the pods until all have ended, or until the user interrupts. */
async function waitForEnd(
  session: Session,
  isDetached: boolean,
  { options, io, report }: PlayContext,
): Promise<number> {
  try {
    return (await session.ended(io.signal)) ? 0 : 1;
  } catch (error) {
    if (!io.signal.aborted) throw error;
    const words = sameFiles(options);
    if (!isDetached)
      report(`the pods run on, but nothing restarts them now: go on with "dockershim play ${words}"`);
    report(`remove them with "dockershim play --down ${words}"`);
    return 0;
  }
}

interface Watching {
  readonly attached: AttachedPlay;
  readonly session: Session;
  readonly services: Services;
  readonly renewNode: () => Promise<void>;
}

/** Applies the files again when they change, until the user interrupts. Files that are broken change nothing. */
async function watchFiles(
  read: Read,
  { attached, session, services, renewNode }: Watching,
  context: PlayContext,
): Promise<void> {
  const { options, io, report } = context;
  const { FileWatch } = await import("../manifests/watch-files.js");
  const change = new Notify();
  const { recursive = false } = options;
  using files = new FileWatch(options.files, { recursive, onChange: change.notify });
  using _ = linkAbort(io.signal, change.notify);
  let failure: string | undefined;
  change.notify(); // The files may have changed since they were read.
  for (;;) {
    await change.notified();
    if (io.signal.aborted) return;
    await files.renew();
    const next = await readAgain(read, context);
    // Other files of the directory change, too: the same failure is reported once.
    if (typeof next === "string" && next !== failure)
      report(`the files have changed, and nothing was applied: ${next}`);
    failure = typeof next === "string" ? next : undefined;
    if (next === undefined || typeof next === "string") continue;
    Object.assign(read, next);
    services.replace(next.workloads.services);
    try {
      await renewNode();
      const names = namesOf(next.workloads);
      await attached.claim(names);
      await session.update(next.workloads, { obsolete: "remove" }, io.signal);
      await attached.applied(next.texts, names);
      report("the files have changed: applied");
    } catch (error) {
      report(`the files have changed, and were not applied as a whole: ${messageOf(error)}`);
    }
  }
}

/** Undefined when nothing has changed; text when the files cannot be read. */
async function readAgain(read: Read, context: PlayContext): Promise<Read | string | undefined> {
  try {
    const texts = await readFilesOf(context);
    if (isDeepStrictEqual(texts, read.texts)) return undefined;
    const { emptiedFile } = await import("../manifests/watch-files.js");
    const emptied = emptiedFile(read.texts, texts);
    if (emptied !== undefined) return `"${emptied}" is empty`;
    return { texts, workloads: await readPlayed(texts, context.options, context.report) };
  } catch (error) {
    return messageOf(error);
  }
}
