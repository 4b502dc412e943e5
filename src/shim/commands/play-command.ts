/** `dockershim play FILE…`: runs Pod manifests through the CRI socket. */
import { messageOf, ShimError } from "../lib/errors.js";
import { connect } from "../../play/client.js";
import { nodeFiles } from "../../play/containers/files.js";
import { followPods } from "../../play/view/follow.js";
import type { ManifestFile } from "../../play/manifests/documents.js";
import { parseReplicas, readManifestFiles } from "../../play/manifests/manifest-files.js";
import { summarizeNotices } from "../../play/manifests/notices.js";
import { type Manifest, readPodKeys, readWorkloads } from "../../play/manifests/read-manifests.js";
import { serverFeatures } from "../../play/containers/server-features.js";
import { RegistryCredentialStore } from "../registry/registry-credentials.js";
import { readNodeFacts } from "../../play/containers/node-facts.js";
import { backOffTimes } from "../../play/kubelet/back-off.js";
import { systemClock } from "../../play/kubelet/clock.js";
import { makeHandlers } from "../../play/handlers/handlers.js";
import { dialFromHere } from "../../play/dial.js";
import { Kubelet } from "../../play/kubelet/kubelet.js";
import { playDown, playUp, showPods } from "../../play/play.js";
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
  const manifests = options.down ? [] : await readPods(texts, options, report);
  const doomed = options.down ? await readPodKeys(texts) : [];
  const client = connect(options.endpoint);
  try {
    await client.version(signal); // So that a missing server is the first error.
    const files = nodeFiles;
    const handlers = makeHandlers({ client, dial: dialFromHere });
    if (options.down) {
      const { failed } = await playDown(
        doomed,
        { client, files, directories, report, handlers, clock: systemClock },
        signal,
      );
      return failed > 0 ? 1 : 0;
    }

    const node = await readNodeFacts(directories.state);
    const deps = {
      client,
      features: serverFeatures(await client.status(signal)),
      credentials: dockerCredentials(report),
      files,
      node,
      directories,
      report,
      handlers,
      clock: systemClock,
      backOff: backOffTimes,
    };
    await using kubelet = new Kubelet(deps);
    await playUp(manifests, kubelet, deps, { keep: options.keep ?? false }, signal);
    const states = await showPods(manifests, deps, print, signal);
    if (!options.follow) return states.some((state) => state !== "Running" && state !== "Succeeded") ? 1 : 0;

    const output = (line: string): void => {
      print(`${line}\n`);
    };
    const last = await followPods(manifests, { ...deps, output, pollMs: followPollMs }, signal);
    if (last === undefined) {
      report(`the pods run on; remove them with: dockershim play --down ${options.files.join(" ")}`);
      return 0;
    }
    return last.every((state) => state === "Succeeded") ? 0 : 1;
  } finally {
    client.close();
  }
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

/** The pods, with one line for each reason why something is passed over. */
async function readPods(
  files: readonly ManifestFile[],
  options: PlayOptions,
  report: (line: string) => void,
): Promise<readonly Manifest[]> {
  const { strict = false, schedule = false, localVolumes = false } = options;
  const replicas = parseReplicas(options.replicas ?? []);
  const workloads = await readWorkloads(files, { replicas, strict, schedule, localVolumes });
  for (const line of summarizeNotices(workloads.notices)) report(line);
  const [job] = [...workloads.jobs, ...workloads.cronJobs];
  if (job !== undefined) {
    throw new ShimError("unsupported", `${job.source}: jobs are not honoured yet`);
  }
  return workloads.pods;
}
