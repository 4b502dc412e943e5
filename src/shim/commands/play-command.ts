/** `dockershim play FILE…`: runs Pod manifests through the CRI socket. */
import { withDeadline } from "../lib/abort.js";
import { isKind, messageOf, ShimError } from "../lib/errors.js";
import { writeFileAtomically } from "../lib/files/atomic-file.js";
import { shownText } from "../lib/shown-text.js";
import { connect } from "../../play/client.js";
import { nodeFiles } from "../../play/containers/files.js";
import type { Screen } from "../../play/view/colours.js";
import { LogFollower } from "../../play/view/follow-logs.js";
import { LiveTable } from "../../play/view/live-table.js";
import type { PlayOutput } from "../../play/view/play-outputs.js";
import { renderPlayedPods } from "../../play/view/pod-table.js";
import { Timeline } from "../../play/view/timeline.js";
import { renderTimeline } from "../../play/view/timeline-svg.js";
import type { ManifestFile } from "../../play/manifests/documents.js";
import { parseReplicas, readManifestFiles } from "../../play/manifests/manifest-files.js";
import { summarizeNotices } from "../../play/manifests/notices.js";
import { readDoomed, readWorkloads } from "../../play/manifests/read-manifests.js";
import type { Workloads } from "../../play/manifests/workloads.js";
import { serverFeatures } from "../../play/containers/server-features.js";
import { RegistryCredentialStore } from "../registry/registry-credentials.js";
import { readNodeFacts } from "../../play/containers/node-facts.js";
import { backOffTimes, scaled } from "../../play/kubelet/back-off.js";
import { systemClock } from "../../play/kubelet/clock.js";
import type { Kubelet } from "../../play/kubelet/kubelet.js";
import { makeHandlers } from "../../play/handlers/handlers.js";
import { dialFromHere } from "../../play/dial.js";
import { type PublishedPort, publishedHeader, publishedRow } from "../../play/services/publish-ports.js";
import { Services } from "../../play/services/services.js";
import { formatTable } from "../../play/view/format-table.js";
import { Session } from "../../play/session.js";
import { doomedPods, playDown } from "../../play/play.js";
import type { Directories } from "../../play/containers/pod-files.js";
import { defaultDirectories } from "../../play/containers/pod-files.js";

export interface PlayOptions {
  /** Paths of manifests and of directories; `-` is standard input. */
  readonly files: readonly string[];
  /** `unix:///ABSOLUTE/PATH` of a CRI server, or the path alone. */
  readonly endpoint: string;
  readonly follow: boolean;
  /** Removes the pods instead. */
  readonly down: boolean;
  /** Leaves what was made when a pod fails. */
  readonly keep?: boolean;
  /** Returns when all pods are ready and all jobs complete, at most after this time. */
  readonly waitMs?: number | undefined;
  /** Back-off times are a tenth of the kubelet's. */
  readonly fast?: boolean;
  readonly output?: PlayOutput;
  /** Path of an SVG of all steps, written at the end. */
  readonly timeline?: string | undefined;
  /** Also reads the directories below the given ones. */
  readonly recursive?: boolean;
  /** Numbers of pods: `3` for all workloads, `web=3` for one. */
  readonly replicas?: readonly string[];
  /** CronJobs run by their schedule instead of once. */
  readonly schedule?: boolean;
  /** Refuses what is otherwise passed over. */
  readonly strict?: boolean;
  /** Puts local volumes in place of those of storage systems. */
  readonly localVolumes?: boolean;
  readonly directories?: Partial<Directories>;
}

export interface PlayIo {
  readonly stdout: Screen;
  readonly stderr: Screen;
  readonly stdin?: AsyncIterable<string | Uint8Array>;
  /**
   * Ends the command. Before all pods run, play removes what it made; while it follows logs, it keeps the
   * pods.
   */
  readonly signal: AbortSignal;
}

/** Where lines for the user go: above the table as soon as there is one. */
interface Shown {
  report: (line: string) => void;
}

type Played = Workloads & { readonly published: readonly PublishedPort[] };

const fastFactor = 0.1;

/** The exit code: 0 when all pods run or have succeeded (or are removed). Errors are printed, not thrown. */
export async function runPlay(options: PlayOptions, io: PlayIo): Promise<number> {
  try {
    return await play(options, io);
  } catch (error) {
    io.stderr.write(`dockershim play: ${shownLines(messageOf(error))}\n`);
    return 1;
  }
}

/** Probes, hooks and termination messages say what a container wants: nothing for the terminal to act on. */
function shownLines(text: string): string {
  return text.split("\n").map(shownText).join("\n");
}

async function play(options: PlayOptions, io: PlayIo): Promise<number> {
  const { signal } = io;
  const directories = { ...defaultDirectories, ...options.directories };
  const screen: Shown = {
    report: (line) => {
      io.stderr.write(`${shownLines(line)}\n`);
    },
  };
  const report = (line: string): void => {
    screen.report(line);
  };
  const { recursive = false } = options;
  const texts = await readManifestFiles(options.files, { recursive, stdin: io.stdin, signal });
  const doomed = options.down ? await readDoomed(texts) : undefined;
  const workloads = options.down ? undefined : await readAll(texts, options, report);
  const client = connect(options.endpoint);
  try {
    const server = await client.version(signal); // So that a missing server is the first error.
    const files = nodeFiles;
    const handlers = makeHandlers({ client, dial: dialFromHere });
    const common = { client, files, directories, report, handlers, clock: systemClock };
    if (doomed !== undefined) {
      const { failed } = await playDown(await doomedPods(doomed, client, signal), common, signal);
      return failed > 0 ? 1 : 0;
    }
    if (workloads === undefined) return 0;
    const deps = {
      ...common,
      node: await readNodeFacts(directories.state),
      features: serverFeatures(await client.status(signal)),
      credentials: dockerCredentials(report),
      backOff: options.fast === true ? scaled(backOffTimes, fastFactor) : backOffTimes,
    };
    await using services = new Services(workloads.services, deps);
    await services.adopt(workloads.pods, signal);
    await using session = new Session({ ...deps, services });
    using _ = services.attach(session.kubelet);
    const timeline = new Timeline(() => Date.now());
    using _timeline = session.kubelet.listen(timeline);
    try {
      return await runSession(
        session,
        workloads,
        { ...options, runtimeName: server.runtime_name },
        io,
        screen,
      );
    } finally {
      if (options.timeline !== undefined)
        await writeFileAtomically(options.timeline, renderTimeline(timeline.data), {
          mode: 0o644,
          temporaryPrefix: ".timeline-",
        });
    }
  } finally {
    client.close();
  }
}

/** Makes the pods, shows them, and stays their kubelet as long as the user wants. */
async function runSession(
  session: Session,
  workloads: Played,
  options: PlayOptions & { readonly runtimeName: string },
  io: PlayIo,
  shown: Shown,
): Promise<number> {
  const { signal, stdout, stderr } = io;
  const { runtimeName, waitMs, output = "table", follow, files } = options;
  const pods = (): Kubelet["pods"] => session.kubelet.pods;
  using table = new LiveTable({
    ...{ pods, screen: stderr, output: stdout, environment: process.env, clock: systemClock },
  });
  shown.report = (line) => {
    table.report(line);
  };
  using _table = session.kubelet.listen(table);
  await using logs = new LogFollower({
    ...{ directories: { ...defaultDirectories, ...options.directories }, clock: systemClock },
    output: (line) => {
      table.log(line);
    },
    report: shown.report,
  });
  using _logs = follow ? session.kubelet.listen(logs) : undefined;
  try {
    await session.apply(workloads, { keep: options.keep ?? false }, signal);
    if (waitMs !== undefined) await waitUntilReady(session, waitMs, signal);
    if (waitMs !== undefined || stderr.isTTY !== true) {
      stdout.write(await renderPlayedPods(pods(), output, { now: Date.now(), runtimeName }));
      const rows = workloads.published.map(publishedRow);
      if (rows.length > 0 && output === "table") stdout.write(`\n${formatTable([publishedHeader, ...rows])}`);
    }
    if (waitMs !== undefined && !follow) return 0;
    return await attend(session, shown, files, signal);
  } finally {
    shown.report = (line) => {
      stderr.write(`${shownLines(line)}\n`);
    };
  }
}

/** Stays the kubelet of the pods until all have ended, or until the user interrupts. */
async function attend(
  session: Session,
  shown: Shown,
  files: readonly string[],
  signal: AbortSignal,
): Promise<number> {
  try {
    return (await session.ended(signal)) ? 0 : 1;
  } catch (error) {
    if (!signal.aborted) throw error;
    const words = files.join(" ");
    shown.report(`the pods run on, but nothing restarts them now: go on with "dockershim play ${words}"`);
    shown.report(`remove them with "dockershim play --down ${words}"`);
    return 0;
  }
}

async function waitUntilReady(session: Session, milliseconds: number, signal: AbortSignal): Promise<void> {
  try {
    await withDeadline(signal, milliseconds, "wait until all are ready", (limit) => session.ready(limit));
  } catch (error) {
    if (!isKind(error, "timeout")) throw error;
    throw new ShimError("timeout", `${messageOf(error)}; not ready: ${session.unready().join(", ")}`);
  }
}

/** With one line for each reason why something is passed over. */
async function readAll(
  files: readonly ManifestFile[],
  options: PlayOptions,
  report: (line: string) => void,
): Promise<Played> {
  const { strict = false, schedule = false, localVolumes = false } = options;
  const replicas = parseReplicas(options.replicas ?? []);
  const workloads = await readWorkloads(files, { replicas, strict, schedule, localVolumes });
  const { pods, published, notices } = Services.plan(workloads, { strict });
  for (const line of summarizeNotices([...workloads.notices, ...notices])) report(line);
  return { ...workloads, pods, published };
}

/** Those of `docker login`, in DOCKER_CONFIG or the home directory. */
function dockerCredentials(report: (line: string) => void): RegistryCredentialStore {
  const log = {
    warn: (...args: unknown[]) => {
      const [fields, message] = args as [Readonly<Record<string, string>>, string];
      report(`${message}: ${fields["path"] ?? fields["registry"] ?? ""}: ${fields["err"] ?? ""}`);
    },
    debug: () => undefined,
  };
  // Not the working directory: a config.json there is often that of a project.
  return new RegistryCredentialStore({ directory: process.env["DOCKER_CONFIG"], workingDirectory: "", log });
}
