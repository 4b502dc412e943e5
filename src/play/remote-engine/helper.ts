/** The helper container on an engine elsewhere: it holds the volumes of play, and can be made again. */
import { posix } from "node:path";
import { sleep } from "../../lib/abort.js";
import { ShimError, isKind, messageOf } from "../../lib/errors.js";
import type { CreateBody } from "../../domain/create-body.js";
import type { Labels } from "../../domain/labels.js";
import { type NodeFacts, remappedRoot } from "../../domain/node-facts.js";
import type { Snapshot } from "../../domain/snapshot.js";
import type { Engine } from "../../shim/ports/engine.js";
import { HelperCalls, helperVolumes } from "./helper-calls.js";
import { helperName, kindLabel, namePrefix, podsVolume } from "../pod-config/volume-names.js";

export interface HelperDeps {
  readonly engine: Pick<
    Engine,
    | "createContainer"
    | "createExec"
    | "createVolume"
    | "inspectContainer"
    | "inspectImage"
    | "inspectVolume"
    | "listVolumes"
    | "loadImage"
    | "removeContainer"
    | "startContainer"
    | "startExec"
  >;
  readonly facts: Pick<NodeFacts, "security" | "dockerRootDir">;
  readonly image: {
    readonly reference: string;
    /** For `POST /images/load`. */
    readonly archive: () => Promise<Buffer>;
  };
  /** Where the engine's volumes are on its host: `/var/lib/docker/volumes`. */
  readonly volumesPath: string;
}

/** What a helper was made with: another value means another helper. */
const volumesLabel = "dockershim.play.volumes";
const mountsLabel = "dockershim.play.mounts";
const mostAttempts = 12;
/** The wait before an attempt is up to this, times its number: plays that undo each other's work get out of step. */
const retryMs = 50;
/** As the engine says it when the mounts of its host are private. */
const notShared = /not a shared mount/;

export interface OpenHelper extends Disposable {
  readonly calls: HelperCalls;
  /** Whether what the helper mounts is seen by the engine. */
  readonly canMount: boolean;
}

/** Makes what is missing, and starts the program. Other plays may do the same at the same time. */
export async function openHelper(deps: HelperDeps, signal: AbortSignal): Promise<OpenHelper> {
  const { engine, facts, volumesPath } = deps;
  await ensureVolume(podsVolume, { [kindLabel]: "files" }, deps, signal);
  const options = {
    command: ["/helper", "play-files", helperVolumes, namePrefix],
    ...{ tty: false, stdin: true, stdout: true, stderr: true },
  };
  for (let attempt = 1; ; attempt += 1) {
    const { id, labels, isNew } = await ensureContainer(deps, signal);
    try {
      const streams = await engine.startExec(await engine.createExec(id, options, signal), options, signal);
      const calls = new HelperCalls(streams, volumesPath, helperVolumes, remappedRoot(facts));
      return {
        ...{ calls, canMount: labels[mountsLabel] === "shared" },
        [Symbol.dispose]: () => calls[Symbol.dispose](),
      };
    } catch (error) {
      // With its last pod, another play has removed the container since.
      const isGone = isKind(error, "notFound", "precondition", "conflict");
      if (!isGone || attempt === mostAttempts) {
        if (isNew) await undo(id, deps, signal);
        throw error;
      }
      await sleep(Math.random() * attempt * retryMs, signal);
    }
  }
}

/** Of a container that has not served anything. */
async function undo(id: string, { engine }: HelperDeps, signal: AbortSignal): Promise<void> {
  try {
    await engine.removeContainer(id, { force: true }, signal);
  } catch {
    // The first error is the one to report. The next play uses the container or removes it.
  }
}

/** Throws `unsupported` for a volume that another driver has, or that lies elsewhere. */
export async function ensureVolume(
  name: string,
  labels: Labels,
  { engine, volumesPath }: Pick<HelperDeps, "engine" | "volumesPath">,
  signal: AbortSignal,
): Promise<void> {
  const { driver, mountpoint } = await engine.createVolume(name, labels, signal);
  const wanted = posix.join(volumesPath, name, "_data");
  if (driver === "local" && mountpoint === wanted) return;
  const what = `it is at "${mountpoint}" by driver "${driver}", not at "${wanted}" by driver "local"`;
  throw new ShimError("unsupported", `use volume "${name}": ${what}`);
}

/** Its mounts on the engine's host stay. */
export async function removeHelper(
  { engine }: Pick<HelperDeps, "engine">,
  signal: AbortSignal,
): Promise<void> {
  await engine.removeContainer(helperName, { force: true }, signal);
}

async function ensureContainer(
  deps: HelperDeps,
  signal: AbortSignal,
): Promise<Snapshot & { readonly isNew: boolean }> {
  const { engine, image } = deps;
  let propagation: "rshared" | "rprivate" = "rshared";
  let made: string | undefined;
  for (let attempt = 1; ; attempt += 1) {
    if (attempt > 1) await sleep(Math.random() * attempt * retryMs, signal);
    const volumes = await volumesOfPlay(deps, signal);
    const found = await engine.inspectContainer(helperName, signal);
    if (found !== undefined && found.labels[kindLabel] !== "helper") {
      const what = "another program's container has this name; rename or remove it";
      throw new ShimError("conflict", `make container "${helperName}": ${what}`);
    }
    if (found !== undefined && isUsable(found, volumes, image.reference)) {
      if (found.state.running) return { ...found, isNew: found.id === made };
      const failure = await tryToStart(found.id, deps, signal);
      if (failure === undefined) continue;
      if (notShared.test(failure.message)) propagation = "rprivate";
      else if (attempt === mostAttempts) {
        await undo(found.id, deps, signal);
        throw failure.within(`start container "${helperName}"`);
      }
    }
    if (attempt === mostAttempts)
      throw new ShimError("conflict", `start container "${helperName}": another program changes it, too`);
    if (found !== undefined) await engine.removeContainer(found.id, { force: true }, signal);
    await ensureImage(deps, signal);
    try {
      made = await engine.createContainer(helperName, helperBody(volumes, propagation, deps), signal);
    } catch (error) {
      // Another play has made it.
      if (!isKind(error, "conflict")) throw ShimError.from(error);
    }
  }
}

/** Undefined when it runs, or was removed by another play. */
async function tryToStart(
  id: string,
  { engine }: HelperDeps,
  signal: AbortSignal,
): Promise<ShimError | undefined> {
  try {
    await engine.startContainer(id, signal);
    return undefined;
  } catch (error) {
    if (signal.aborted || isKind(error, "unavailable", "timeout")) throw error;
    return isKind(error, "notFound") ? undefined : ShimError.from(error);
  }
}

async function volumesOfPlay({ engine }: HelperDeps, signal: AbortSignal): Promise<readonly string[]> {
  const claims = await engine.listVolumes({ key: kindLabel, value: "claim" }, signal);
  return [podsVolume, ...[...claims].sort()];
}

function isUsable(
  { labels, imageName, state }: Snapshot,
  volumes: readonly string[],
  reference: string,
): boolean {
  const held = new Set((labels[volumesLabel] ?? "").split(","));
  const canRun = state.status === "running" || state.status === "created";
  return canRun && imageName === reference && volumes.every((volume) => held.has(volume));
}

async function ensureImage({ engine, image }: HelperDeps, signal: AbortSignal): Promise<void> {
  if ((await engine.inspectImage(image.reference, signal)) !== undefined) return;
  try {
    await engine.loadImage(await image.archive(), signal);
  } catch (error) {
    throw new ShimError(
      ShimError.from(error).kind,
      `load image "${image.reference}", which writes files on the engine's host: ${messageOf(error)}`,
    );
  }
}

function helperBody(
  volumes: readonly string[],
  propagation: "rshared" | "rprivate",
  { facts, image, volumesPath }: HelperDeps,
): CreateBody {
  return {
    Image: image.reference,
    Labels: {
      [kindLabel]: "helper",
      [volumesLabel]: volumes.join(","),
      [mountsLabel]: propagation === "rshared" ? "shared" : "private",
    },
    HostConfig: {
      NetworkMode: "none",
      ReadonlyRootfs: true,
      CapDrop: ["ALL"],
      // For files of all users, and mounts.
      CapAdd: ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "SYS_ADMIN"],
      SecurityOpt: ["apparmor=unconfined", "seccomp=unconfined", "label=disable"],
      ...(facts.security.usernsRemap ? { UsernsMode: "host" } : {}),
      LogConfig: { Type: "none", Config: {} },
      RestartPolicy: { Name: "no" },
      Mounts: [
        {
          ...{ Type: "bind", Source: volumesPath, Target: helperVolumes },
          BindOptions: { Propagation: propagation },
        },
        // Used volumes are neither pruned nor removed.
        ...volumes.map((volume, index) => ({
          ...{ Type: "volume" as const, Source: volume, Target: `/used/${index}`, ReadOnly: true },
          VolumeOptions: { NoCopy: true },
        })),
      ],
    },
  };
}
