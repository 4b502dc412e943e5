/** `dockershim play FILE…`: runs Pod manifests through the CRI socket. */
import { withDeadline } from "../lib/abort.js";
import { isKind, messageOf, ShimError } from "../lib/errors.js";
import { connect } from "../../play/client.js";
import { nodeFiles } from "../../play/containers/files.js";
import { type FollowDeps, followPods } from "../../play/view/follow.js";
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
import { makeHandlers } from "../../play/handlers/handlers.js";
import { dialFromHere } from "../../play/dial.js";
import { type PublishedPort, publishedHeader, publishedRow } from "../../play/services/publish-ports.js";
import { Services } from "../../play/services/services.js";
import { formatTable } from "../../play/view/pod-view.js";
import { Session } from "../../play/session.js";
import { doomedPods, playDown, showPods } from "../../play/play.js";
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
  readonly stdout: { write(text: string): unknown };
  readonly stderr: { write(text: string): unknown };
  readonly stdin?: AsyncIterable<string | Uint8Array>;
  /**
   * Ends the command. Before all pods run, play removes what it made; while it follows logs, it keeps the
   * pods.
   */
  readonly signal: AbortSignal;
}

const followPollMs = 500;
const fastFactor = 0.1;

/** The exit code: 0 when all pods run or have succeeded (or are removed). Errors are printed, not thrown. */
export async function runPlay(options: PlayOptions, io: PlayIo): Promise<number> {
  try {
    return await play(options, io);
  } catch (error) {
    io.stderr.write(`dockershim play: ${messageOf(error)}\n`);
    return 1;
  }
}

async function play(options: PlayOptions, io: PlayIo): Promise<number> {
  const { signal } = io;
  const directories = { ...defaultDirectories, ...options.directories };
  const report = (line: string): void => {
    io.stderr.write(`${line}\n`);
  };
  const print = (text: string): void => {
    io.stdout.write(text);
  };
  const { recursive = false } = options;
  const texts = await readManifestFiles(options.files, { recursive, stdin: io.stdin, signal });
  const doomed = options.down ? await readDoomed(texts) : undefined;
  const workloads = options.down ? undefined : await readAll(texts, options, report);
  const client = connect(options.endpoint);
  try {
    await client.version(signal); // So that a missing server is the first error.
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
    await session.apply(workloads, { keep: options.keep ?? false }, signal);
    if (options.waitMs !== undefined) await waitUntilReady(session, options.waitMs, signal);
    await showPods(session.manifests, deps, print, signal);
    const { published } = workloads;
    if (published.length > 0) print(`\n${formatTable([publishedHeader, ...published.map(publishedRow)])}`);
    if (options.waitMs !== undefined && !options.follow) return 0;
    return await attend(session, { ...deps, output: (line) => print(`${line}\n`) }, options, io);
  } finally {
    client.close();
  }
}

/** Stays the kubelet of the pods until all have ended, or until the user interrupts. */
async function attend(
  session: Session,
  deps: Omit<FollowDeps, "pollMs">,
  { follow, files }: PlayOptions,
  { signal }: PlayIo,
): Promise<number> {
  using _ = session.kubelet.listen({
    onEvent: ({ key, message }) => {
      deps.report(`${key.namespace}/${key.name}: ${message}`);
    },
  });
  try {
    const [succeeded] = await Promise.all([
      session.ended(signal),
      follow ? followPods(() => session.manifests, { ...deps, pollMs: followPollMs }, signal) : undefined,
    ]);
    return succeeded ? 0 : 1;
  } catch (error) {
    if (!signal.aborted) throw error;
    const words = files.join(" ");
    deps.report(`the pods run on, but nothing restarts them now: go on with "dockershim play ${words}"`);
    deps.report(`remove them with "dockershim play --down ${words}"`);
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
): Promise<Workloads & { readonly published: readonly PublishedPort[] }> {
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
