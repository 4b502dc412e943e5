/** Starts one container, with the steps and the errors of the kubelet's startContainer. */
import { dirname, join } from "node:path";
import { formatDuration } from "../../lib/abort.js";
import { type ErrorKind, ShimError, messageOf } from "../../lib/errors.js";
import { type Answer, ContainerState, type Image, type ImageSpec } from "../../domain/cri.js";
import { stopSignalNumber } from "../../domain/stop-signal.js";
import { createContainer } from "./create-container.js";
import { sandboxConfig } from "../pod-config/cri-config.js";
import { logDirectory, logPath } from "../pod-config/pod-paths.js";
import { type WantedImage, ensureImage, ensureVolumeImages, pullPolicy } from "./images.js";
import { pullCredentials } from "./pull-credentials.js";
import type { Manifest } from "../manifests/read-manifests.js";
import type { BackOff } from "./back-off.js";
import { pause } from "./clock.js";
import type { EventSink } from "./events.js";
import { killContainer } from "./kill-containers.js";
import type { PodDeps } from "./kubelet-deps.js";
import { containerHash } from "../pod-config/hashes.js";
import {
  type ObservedContainer,
  type ObservedPod,
  type ObservedSandbox,
  newestContainer,
  podIpOf,
} from "../pod-rules/observed-pod.js";
import type { ContainerStart } from "../pod-rules/pod-actions.js";

/** Why a container does not run. `reason` is what `kubectl get pods` shows. */
export class StartFailure extends ShimError {
  constructor(
    readonly reason: string,
    kind: ErrorKind,
    message: string,
    cause?: unknown,
    /** When a back-off ends, in milliseconds since 1970; undefined for an error. */
    readonly retryAt?: number,
  ) {
    super(kind, message, {}, { cause });
  }
}

/** How long the start of a process that was killed may go on, and how often it is looked at. */
const settleMs = 10_000;
const settlePollMs = 100;

interface StartInput {
  readonly start: ContainerStart;
  readonly manifest: Manifest;
  readonly sandbox: Pick<ObservedSandbox, "id" | "attempt">;
  readonly observed: ObservedPod;
  readonly crashes: BackOff;
  readonly pulls: BackOff;
  /** The images of volumes that containers before it have mounted; is kept up to date. */
  readonly volumeImages: Map<string, Answer<ImageSpec>>;
  /** See SyncInput. */
  readonly starting: <T>(work: (isUnfinished: boolean) => Promise<T>) => Promise<T>;
}

/** Throws a StartFailure. */
export async function startContainer(input: StartInput, deps: PodDeps, signal: AbortSignal): Promise<void> {
  const { container, kind } = input.start;
  const { name } = container;
  checkBackOff(input, deps.event);
  const image = await ensureImages(input, deps, signal);

  const id = await input.starting(async (isUnfinished) => {
    const present = isUnfinished ? unfinished(input) : undefined;
    const made = present?.id ?? (await create(input, image, deps, signal));
    await checkStopSignal(made, container, deps, signal);
    const startedFrom = deps.clock.now();
    await step(
      () => "RunContainerError",
      `start ${nouns[kind]} "${name}"`,
      async () => {
        try {
          await deps.client.startContainer(made, signal);
        } catch (error) {
          if (present === undefined || !(await isSettled(made, deps, signal))) throw error;
        }
      },
      (reason) => explainStart(reason.replaceAll(made, name), container),
    );
    deps.event("Normal", "Started", `Started ${nouns[kind]} ${name}`, name, startedFrom);
    return made;
  });
  await postStart(id, input, deps, signal);
}

/** A container whose start the process before has asked for: a second one would run beside it. */
function unfinished({ start, sandbox, observed }: StartInput): ObservedContainer | undefined {
  const newest = newestContainer(observed, start.container.name);
  const isWanted = newest?.sandboxId === sandbox.id && newest.hash === containerHash(start.container);
  return newest?.state === "created" && isWanted ? newest : undefined;
}

/** Whether the start of the process before has ended: containerd undoes that of a client that is gone. */
async function isSettled(id: string, { client, clock }: PodDeps, signal: AbortSignal): Promise<boolean> {
  const deadline = clock.uptime() + settleMs;
  for (;;) {
    const { state } = await client.containerStatus(id, signal);
    if (state !== ContainerState.CONTAINER_CREATED) return true;
    if (clock.uptime() >= deadline) return false;
    await pause(settlePollMs, clock, signal);
    signal.throwIfAborted();
  }
}

async function create(
  { start, manifest, sandbox, observed, volumeImages }: StartInput,
  image: Image,
  deps: PodDeps,
  signal: AbortSignal,
): Promise<string> {
  const { container, kind } = start;
  const { name } = container;
  const previous = newestContainer(observed, name);
  // The one before may have been removed.
  const before = previous?.attempt ?? Math.max(-1, ...(await loggedAttempts(name, manifest, deps)));
  const attempt = before + 1;
  let isCreating = false;
  const createdFrom = deps.clock.now();
  const id = await step(
    () => (isCreating ? "CreateContainerError" : "CreateContainerConfigError"),
    `create ${nouns[kind]} "${name}"`,
    () =>
      createContainer({
        manifest,
        container,
        sandbox,
        image,
        volumeImages,
        attempt,
        deps,
        signal,
        ...targetOf(container, observed),
        podIps: observed.ips,
        beforeCall: () => {
          isCreating = true;
        },
      }),
  );
  deps.event("Normal", "Created", `Created ${nouns[kind]} ${name}`, name, createdFrom);
  return id;
}

/** The attempts of a container that have a log, in any order. */
export async function loggedAttempts(
  name: string,
  { key }: Manifest,
  { files, directories }: PodDeps,
): Promise<readonly number[]> {
  const logs = await files.list(dirname(join(logDirectory(directories, key), logPath(name, 0))));
  return logs.flatMap((log) => (/^\d{1,9}\.log$/.test(log) ? [Number.parseInt(log, 10)] : []));
}

/** Older servers do not know the field, and stop the container by the signal of its image. */
async function checkStopSignal(
  id: string,
  { name, lifecycle }: ContainerStart["container"],
  { client, event }: PodDeps,
  signal: AbortSignal,
): Promise<void> {
  const wanted = lifecycle?.stopSignal;
  if (wanted === undefined) return;
  const { stop_signal } = await client.containerStatus(id, signal);
  if (stop_signal === stopSignalNumber(wanted)) return;
  const message = `the CRI server does not report whether it stops container ${name} by ${wanted}`;
  event("Warning", "StopSignalUnknown", message, name);
}

/** The container whose processes an ephemeral container sees. */
function targetOf(
  container: ContainerStart["container"],
  observed: ObservedPod,
): { readonly targetId?: string } {
  if (!("targetContainerName" in container)) return {};
  const target = newestContainer(observed, container.targetContainerName);
  if (target?.state === "running") return { targetId: target.id };
  throw new ShimError("precondition", `its target container "${container.targetContainerName}" does not run`);
}

const nouns = { regular: "container", init: "init container", ephemeral: "ephemeral container" } as const;

async function step<T>(
  reason: () => string,
  action: string,
  work: () => Promise<T>,
  explain: (message: string) => string = (message) => message,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const { kind } = ShimError.from(error, "unknown");
    throw new StartFailure(reason(), kind, `${action}: ${explain(messageOf(error))}`, error);
  }
}

/** Some servers do not name the program that is missing, and none says where its name comes from. */
function explainStart(message: string, { command, image }: ContainerStart["container"]): string {
  if (!/executable (?:file )?not found|no such file or directory|exec format error/i.test(message))
    return message;
  const [program] = command ?? [];
  return program === undefined
    ? `${message}; the command is that of image "${image}"`
    : `${message}; the command is "${program}"`;
}

/** A container that has ended is started at once the first time, then after longer and longer waits. */
function checkBackOff({ start, observed, crashes, manifest }: StartInput, event: EventSink): void {
  const { container } = start;
  const ended = observed.containers.find(({ name, state }) => name === container.name && state === "exited");
  if (ended === undefined) return;
  const key = `${container.name} ${containerHash(container)}`;
  const until = crashes.until(key, ended.finishedAt);
  if (until === undefined) {
    crashes.next(key, ended.finishedAt);
    return;
  }
  const delay = `${crashes.delayMs(key) / 1000}s`;
  const { namespace, name } = manifest.key;
  const pod = `${namespace}/${name}`;
  event("Warning", "BackOff", `Back-off restarting failed container ${container.name}`, container.name);
  const message = `back-off ${delay} restarting failed container=${container.name} pod=${pod}`;
  throw new StartFailure("CrashLoopBackOff", "precondition", message, undefined, until);
}

async function ensureImages(
  { start: { container, kind }, manifest, sandbox, pulls, volumeImages }: StartInput,
  deps: PodDeps,
  signal: AbortSignal,
): Promise<Image> {
  const config = sandboxConfig(manifest, sandbox.attempt, deps.node, deps.directories);
  const credentials = pullCredentials(manifest, {
    credentials: deps.credentials,
    report: (line) => deps.event("Warning", "FailedToRetrieveImagePullSecret", line),
  });
  const ensure = async (wanted: WantedImage): Promise<Image> => {
    const pull = { hasBegun: false, from: 0 };
    const onPull = (image: string): void => {
      const until = pulls.untilSinceUpdate(image);
      if (until !== undefined) {
        const message = `Back-off pulling image "${image}"`;
        deps.event("Normal", "BackOff", message, container.name);
        throw new StartFailure("ImagePullBackOff", "unavailable", message, undefined, until);
      }
      pull.hasBegun = true;
      pull.from = deps.clock.now();
      deps.event("Normal", "Pulling", `Pulling image "${image}"`, container.name);
    };
    const onLocalImage = (image: string, why: string): void =>
      deps.event("Normal", "LocalImage", `Image "${image}" of this host is used: ${why}`, container.name);
    try {
      const image = await ensureImage(wanted, config, { ...deps, credentials, onPull, onLocalImage }, signal);
      if (pull.hasBegun) {
        const time = formatDuration(deps.clock.now() - pull.from);
        const size = (Number(image.size) / 1024 ** 2).toFixed(1);
        const pulled = `Pulled image "${wanted.image}" in ${time} (image size ${size} MiB)`;
        deps.event("Normal", "Pulled", pulled, container.name, pull.from);
      }
      return image;
    } catch (error) {
      if (error instanceof StartFailure) throw error;
      if (pull.hasBegun && !signal.aborted) pulls.next(wanted.image, deps.clock.now());
      const isForbidden = !pull.hasBegun && pullPolicy(wanted) === "Never";
      const reason = isForbidden ? "ErrImageNeverPull" : pull.hasBegun ? "ErrImagePull" : "ImageInspectError";
      const action = `ensure the image of ${nouns[kind]} "${container.name}"`;
      const message = `${action}: ${messageOf(error)}`;
      const from = pull.hasBegun ? pull.from : undefined;
      const time = pull.hasBegun ? ` (after ${formatDuration(deps.clock.now() - pull.from)})` : "";
      if (!signal.aborted) deps.event("Warning", "Failed", message + time, container.name, from);
      throw new StartFailure(reason, ShimError.from(error, "unknown").kind, message, error);
    }
  };
  const image = await ensure(container);
  const ofVolumes = await ensureVolumeImages(container, manifest.pod.spec, volumeImages, ensure);
  for (const [volume, reference] of ofVolumes) volumeImages.set(volume, reference);
  return image;
}

/** A container whose postStart hook fails is killed. */
async function postStart(
  id: string,
  { start: { container }, manifest, observed }: StartInput,
  deps: PodDeps,
  signal: AbortSignal,
): Promise<void> {
  const hook = container.lifecycle?.postStart;
  if (hook === undefined) return;
  const podIp = podIpOf(manifest.pod.spec, observed);
  const from = deps.clock.now();
  try {
    await deps.handlers.runHook(hook, { containerId: id, container, podIp }, signal);
    deps.event("Normal", "PostStartHook", `Ran postStart hook of ${container.name}`, container.name, from);
  } catch (error) {
    if (signal.aborted) throw error;
    const message = `PostStartHook failed: ${messageOf(error)}`;
    deps.event("Warning", "FailedPostStartHook", message, container.name, from);
    const { spec } = manifest.pod;
    const how = { reason: "postStartHook", message: "FailedPostStartHook" } as const;
    await killContainer(
      { id, name: container.name, graceSeconds: undefined },
      { spec, podIp },
      how,
      deps,
      signal,
    );
    throw new StartFailure("PostStartHookError", "precondition", message, error);
  }
}
