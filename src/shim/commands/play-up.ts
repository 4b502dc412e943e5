/** `play` without `--down`: makes the pods, shows them, and stays their kubelet as long as the user wants. */
import { isDeepStrictEqual } from "node:util";
import { linkAbort, withDeadline } from "../lib/abort.js";
import { isKind, messageOf, ShimError } from "../lib/errors.js";
import { Bell } from "../lib/sync/bell.js";
import { writeFileAtomically } from "../lib/files/atomic-file.js";
import { connect } from "../../play/client.js";
import { nodeFiles } from "../../play/containers/files.js";
import { systemClock } from "../../play/kubelet/clock.js";
import type { Kubelet, KubeletDeps } from "../../play/kubelet/kubelet.js";
import type { ManifestFile } from "../../play/manifests/documents.js";
import { parseReplicas, readManifestFiles } from "../../play/manifests/manifest-files.js";
import { summarizeNotices } from "../../play/manifests/notices.js";
import { readDoomed, readWorkloads } from "../../play/manifests/read-manifests.js";
import type { Doomed, Workloads } from "../../play/manifests/workloads.js";
import { namesOf } from "../../play/play-store.js";
import { doomedPods, playDown } from "../../play/play.js";
import { type PublishedPort, publishedHeader, publishedRow } from "../../play/services/publish-ports.js";
import { Services } from "../../play/services/services.js";
import { Session } from "../../play/session.js";
import { FileWatch, checkWatched, emptiedFile } from "../../play/watch-files.js";
import { drained } from "../../play/view/drained.js";
import { LogFollower } from "../../play/view/follow-logs.js";
import { formatTable } from "../../play/view/format-table.js";
import { LiveTable } from "../../play/view/live-table.js";
import { renderPlayedPods } from "../../play/view/pod-table.js";
import { PullProgress } from "../../play/view/pull-progress.js";
import { Timeline } from "../../play/view/timeline.js";
import { renderTimeline } from "../../play/view/timeline-svg.js";
import type { PlayContext, PlayOptions } from "./play-context.js";
import { readKubeletDeps } from "./play-deps.js";
import { ensureSupervisor } from "./play-supervisor.js";

type Played = Workloads & { readonly published: readonly PublishedPort[] };

/** The files as they were read last; with `--watch` they change. */
interface Read {
  texts: readonly ManifestFile[];
  workloads: Played;
}

interface Progress {
  /** The supervisor had some of the pods, and gets them at the end. */
  wasKept: boolean;
  isApplied: boolean;
  /** Names of what this play still has. */
  kept: () => Promise<ReadonlySet<string>>;
}

/** Where lines for the user go: above the table as long as there is one. */
interface Shown {
  report: (line: string) => void;
}

export async function playUp(context: PlayContext): Promise<number> {
  const { options, io, store } = context;
  if (options.watch === true) await checkWatched(options.files);
  const shown: Shown = { report: context.report };
  const report = (line: string): void => {
    shown.report(line);
  };
  const texts = await readTexts(context);
  const read: Read = { texts, workloads: await readPlayed(texts, options, report) };
  const names = namesOf(read.workloads);
  const stored = await store.list(report);
  const progress: Progress = {
    wasKept: stored.some(({ workloads }) => workloads.some((name) => names.has(name))),
    isApplied: false,
    kept: () => Promise.resolve(new Set()),
  };
  const client = connect(options.endpoint);
  try {
    const { runtime_name: runtimeName } = await client.version(io.signal); // So that a missing server is the first error.
    const pulls = new PullProgress(client, systemClock);
    const deps = (await readKubeletDeps(pulls.followed(client), { ...context, report }, io.signal))(options);
    await using services = new Services(read.workloads.services, deps);
    await services.adopt(read.workloads.pods, io.signal);
    await using session = new Session({ ...deps, services });
    progress.kept = () => session.kept();
    using _services = services.attach(session.kubelet);
    await using _timeline = drawTimeline(session, options.timeline);
    using table = new LiveTable({
      ...{ pods: () => session.kubelet.pods, environment: process.env, clock: systemClock },
      ...{ screen: io.stderr, output: io.stdout, pulls },
    });
    using _table = session.kubelet.listen(table);
    using _shown = redirect(shown, table);
    await using logs = new LogFollower({
      ...{ files: nodeFiles, directories: context.directories, clock: systemClock, report },
      output: (line) => {
        table.log(line);
      },
      pace: () => drained(io.stdout, io.signal),
    });
    using _logs = options.follow ? session.kubelet.listen(logs) : undefined;
    const apply = async (signal: AbortSignal): Promise<void> => {
      await session.apply(read.workloads, { keep: options.keep ?? false }, signal);
      progress.isApplied = true;
      await store.release(names, report);
      await removeSurplus(read, deps, io.signal);
    };
    await (options.waitMs === undefined
      ? apply(io.signal)
      : applyUntilReady(session, apply, options.waitMs, io.signal));
    await print(session.kubelet, read.workloads, runtimeName, context);
    if (options.detach === true || (options.waitMs !== undefined && !options.follow)) return 0;
    if (options.watch === true) await watchFiles(read, progress, session, services, { ...context, report });
    return await attend(session, progress.wasKept, { ...context, report });
  } finally {
    client.close();
    const { wasKept, isApplied } = progress;
    if (wasKept && !isApplied) await store.touch(names);
    if (isApplied && (wasKept || options.detach === true)) await leave(read, await progress.kept(), context);
  }
}

async function readTexts({ options, io }: PlayContext): Promise<readonly ManifestFile[]> {
  const { signal, stdin } = io;
  return readManifestFiles(options.files, { recursive: options.recursive ?? false, stdin, signal });
}

/** With one line for each reason why something is passed over. */
async function readPlayed(
  texts: readonly ManifestFile[],
  options: PlayOptions,
  report: (line: string) => void,
): Promise<Played> {
  const { strict = false, schedule = false, localVolumes = false } = options;
  const replicas = parseReplicas(options.replicas ?? []);
  const workloads = await readWorkloads(texts, { replicas, strict, schedule, localVolumes });
  const { pods, published, notices } = Services.plan(workloads, { strict });
  for (const line of summarizeNotices([...workloads.notices, ...notices])) report(line);
  return { ...workloads, pods, published };
}

/** Writes the picture at the end. */
function drawTimeline(session: Session, path: string | undefined): AsyncDisposable {
  const timeline = new Timeline(() => Date.now());
  const listening = session.kubelet.listen(timeline);
  return {
    [Symbol.asyncDispose]: async () => {
      listening[Symbol.dispose]();
      if (path === undefined) return;
      const options = { mode: 0o644, temporaryPrefix: ".timeline-" };
      await writeFileAtomically(path, renderTimeline(timeline.data), options);
    },
  };
}

function redirect(shown: Shown, table: LiveTable): Disposable {
  const before = shown.report;
  shown.report = (line) => {
    table.report(line);
  };
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
  milliseconds: number,
  signal: AbortSignal,
): Promise<void> {
  try {
    await withDeadline(signal, milliseconds, "wait until all are ready", async (limit) => {
      await apply(limit);
      await session.ready(limit);
    });
  } catch (error) {
    if (!isKind(error, "timeout")) throw error;
    throw new ShimError(
      "timeout",
      `${messageOf(error)}; not ready: ${session.unready().join(", ")}; the pods stay: "dockershim pod describe NAME" tells more`,
    );
  }
}

/** Pods of workloads that had more replicas before. */
async function removeSurplus(
  { texts, workloads }: Read,
  deps: Omit<KubeletDeps, "services">,
  signal: AbortSignal,
): Promise<void> {
  const { owners } = await readDoomed(texts);
  const counted = owners.filter(({ kind }) => kind !== "Job" && kind !== "CronJob");
  const there = await doomedPods({ pods: [], owners: counted }, deps.client, signal);
  const isWanted = ({ key }: Doomed["pods"][number]): boolean =>
    workloads.pods.some((pod) => pod.key.namespace === key.namespace && pod.key.name === key.name);
  await playDown(
    there.filter((pod) => !isWanted(pod)),
    deps,
    signal,
  );
}

async function print(
  { pods }: Kubelet,
  { published }: Played,
  runtimeName: string,
  { options, io }: PlayContext,
): Promise<void> {
  const { output = "table", waitMs, detach } = options;
  if (waitMs === undefined && detach !== true && io.stderr.isTTY === true) return;
  io.stdout.write(await renderPlayedPods(pods, output, { now: Date.now(), runtimeName }));
  if (published.length === 0 || output !== "table") return;
  io.stdout.write(`\n${formatTable([publishedHeader, ...published.map(publishedRow)])}`);
}

/** Stays the kubelet of the pods until all have ended, or until the user interrupts. */
async function attend(
  session: Session,
  isLeft: boolean,
  { options, io, report }: PlayContext,
): Promise<number> {
  try {
    return (await session.ended(io.signal)) ? 0 : 1;
  } catch (error) {
    if (!io.signal.aborted) throw error;
    const words = options.files.join(" ");
    if (!isLeft)
      report(`the pods run on, but nothing restarts them now: go on with "dockershim play ${words}"`);
    report(`remove them with "dockershim play --down ${words}"`);
    return 0;
  }
}

/** Applies the files again when they change, until the user interrupts. Files that are broken change nothing. */
async function watchFiles(
  read: Read,
  progress: Progress,
  session: Session,
  services: Services,
  context: PlayContext,
): Promise<void> {
  const { options, io, store, report } = context;
  const bell = new Bell();
  const { recursive = false } = options;
  using files = new FileWatch(options.files, { recursive, onChange: bell.ring });
  using _ = linkAbort(io.signal, bell.ring);
  let failure: string | undefined;
  bell.ring(); // The files may have changed since they were read.
  for (;;) {
    await bell.rung();
    if (io.signal.aborted) return;
    await files.renew();
    const next = await readAgain(read, context);
    // Other files of the directory change, too: the same failure is told once.
    if (typeof next === "string" && next !== failure)
      report(`the files have changed, and nothing was applied: ${next}`);
    failure = typeof next === "string" ? next : undefined;
    if (next === undefined || typeof next === "string") continue;
    Object.assign(read, next);
    services.replace(next.workloads.services);
    try {
      await session.update(next.workloads, { obsolete: "remove" }, io.signal);
      if (await store.release(namesOf(next.workloads), report)) progress.wasKept = true;
      report("the files have changed: applied");
    } catch (error) {
      report(`the files have changed, and were not applied as a whole: ${messageOf(error)}`);
    }
  }
}

/** Undefined when nothing has changed; text when the files cannot be read. */
async function readAgain(read: Read, context: PlayContext): Promise<Read | string | undefined> {
  try {
    const texts = await readTexts(context);
    if (isDeepStrictEqual(texts, read.texts)) return undefined;
    const emptied = emptiedFile(read.texts, texts);
    if (emptied !== undefined) return `"${emptied}" is empty`;
    return { texts, workloads: await readPlayed(texts, context.options, context.report) };
  } catch (error) {
    return messageOf(error);
  }
}

/** The supervisor goes on with the pods, but those that another play has taken or removed meanwhile. */
async function leave(
  { texts }: Read,
  kept: ReadonlySet<string>,
  { options, store, report }: PlayContext,
): Promise<void> {
  if (kept.size === 0) return;
  const { replicas = [], schedule = false, localVolumes = false, fast = false } = options;
  try {
    await store.release(kept, report);
    await store.save({ files: texts, replicas, schedule, localVolumes, fast, workloads: [...kept] });
  } catch (error) {
    throw ShimError.from(error).within("leave the pods to the supervisor (nothing restarts them now)");
  }
  await ensureSupervisor(store, options.endpoint);
  report(`the pods are left to the supervisor, whose log is ${store.logPath}`);
}
