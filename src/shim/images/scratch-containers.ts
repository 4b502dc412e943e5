import { randomBytes } from "node:crypto";
import { orAbort, withDeadline } from "../../lib/abort.js";
import type { Logger } from "../../lib/log.js";
import { messageOf, ShimError } from "../../lib/errors.js";
import { noteWait } from "../../lib/waits.js";
import { typeLabel } from "../../domain/labels.js";
import type { ImageSnapshot, ListedContainer, Snapshot } from "../../domain/snapshot.js";
import { withoutDeclaredVolumes } from "../plan/image-volumes.js";
import type { Engine } from "../ports/engine.js";
import { mayHaveHappened, removeLostCreate } from "../recovery/lost-answer.js";

/** Label of scratch containers. */
export const scratchLabel = "dockershim.scratch";

const namePrefix = "dockershim-scratch-";

export interface ScratchContainersDeps {
  readonly engine: Pick<
    Engine,
    "createContainer" | "inspectContainer" | "removeContainer" | "listContainers"
  >;
  readonly log: Logger;
  /** Limit of one removal, milliseconds. */
  readonly timeoutMs: number;
  /** Tells this state directory from others on the same engine. */
  readonly stateDirectoryId: string;
}

/** Those of all servers on the state directory, also of killed ones. */
export async function scratchContainersOf(
  stateDirectoryId: string,
  engine: Pick<Engine, "listContainers">,
  signal: AbortSignal,
): Promise<readonly ListedContainer[]> {
  const listed = await engine.listContainers({ labelKey: scratchLabel }, signal);
  return listed.filter(
    ({ names, labels }) =>
      // A container of another program could have the label from its image.
      names.some((name) => name.startsWith(namePrefix)) &&
      labels[scratchLabel]?.split("/")[0] === stateDirectoryId,
  );
}

/**
 * Containers that are never started, to read files of their image: the Engine API reads files of containers
 * only, and files of a pod's container may come from its mounts or its processes. Each exists as long as the
 * work that needs it.
 */
export class ScratchContainers {
  /** Running work by image, until its container is removed; also work whose callers have all left. */
  readonly #inUse = new Map<string, Set<Promise<unknown>>>();
  /** Names of containers that are in use or being created. */
  readonly #names = new Set<string>();
  readonly #stopped = new AbortController();
  readonly #run = randomBytes(8).toString("hex");

  constructor(private readonly deps: ScratchContainersDeps) {}

  /**
   * Runs `work` with the id of a container of the image; its signal also aborts when this program stops.
   * `runtime`: Docker's, if another than the engine's default.
   */
  async use<T>(
    image: Pick<ImageSnapshot, "id" | "volumes">,
    signal: AbortSignal,
    work: (containerId: string, signal: AbortSignal) => Promise<T>,
    runtime?: string,
  ): Promise<T> {
    this.#stopped.signal.throwIfAborted();
    const imageId = image.id;
    const either = AbortSignal.any([signal, this.#stopped.signal]);
    const action = (): string => `a scratch container of image ${JSON.stringify(imageId)}`;
    using _noted = noteWait(signal, { action, inner: either });
    const using = this.#use(image, either, work, runtime);
    const known = this.#inUse.get(imageId) ?? new Set();
    this.#inUse.set(imageId, known.add(using));
    try {
      return await using;
    } finally {
      known.delete(using);
      if (known.size === 0) this.#inUse.delete(imageId);
    }
  }

  /** Returns when the image has no scratch container any more: the engine would count it as a user of the image. */
  async settled(imageId: string, signal: AbortSignal): Promise<void> {
    const known = this.#inUse.get(imageId);
    if (known !== undefined) await orAbort(Promise.allSettled(known), signal);
  }

  /**
   * Ends all work, and returns when the containers are removed or their removal has failed. None is created
   * afterwards.
   */
  async stop(): Promise<void> {
    this.#stopped.abort(new ShimError("cancelled", "the shim is stopping"));
    await Promise.allSettled([...this.#inUse.values()].flatMap((known) => [...known]));
  }

  /**
   * Removes scratch containers that an earlier run on the same state directory left behind, or that were
   * created after their request was abandoned. A failed removal is logged.
   */
  async removeOrphaned(signal: AbortSignal): Promise<void> {
    const { engine, log, stateDirectoryId } = this.deps;
    for (const { id, names } of await scratchContainersOf(stateDirectoryId, engine, signal)) {
      if (names.some((name) => this.#names.has(name))) continue;
      log.info({ containerId: id }, "removing an orphaned scratch container");
      try {
        await engine.removeContainer(id, { force: true }, signal);
      } catch (error) {
        signal.throwIfAborted();
        log.warn({ containerId: id, err: messageOf(error) }, "cannot remove an orphaned scratch container");
      }
    }
  }

  async #use<T>(
    image: Pick<ImageSnapshot, "id" | "volumes">,
    signal: AbortSignal,
    work: (containerId: string, signal: AbortSignal) => Promise<T>,
    runtime: string | undefined,
  ): Promise<T> {
    const name = `${namePrefix}${randomBytes(8).toString("hex")}`;
    this.#names.add(name);
    try {
      return await this.#useNamed(name, image, signal, work, runtime);
    } finally {
      this.#names.delete(name);
    }
  }

  async #useNamed<T>(
    name: string,
    image: Pick<ImageSnapshot, "id" | "volumes">,
    signal: AbortSignal,
    work: (containerId: string, signal: AbortSignal) => Promise<T>,
    runtime: string | undefined,
  ): Promise<T> {
    const { engine, log, stateDirectoryId, timeoutMs } = this.deps;
    const body = {
      Image: image.id,
      // Never run, but Docker creates no container without a command.
      Entrypoint: ["none"],
      // An empty type: a type from the image would make the container part of a pod.
      Labels: { [scratchLabel]: `${stateDirectoryId}/${this.#run}`, [typeLabel]: "" },
      HostConfig: {
        NetworkMode: "none",
        Mounts: withoutDeclaredVolumes(image),
        ...(runtime === undefined ? {} : { Runtime: runtime }),
      },
    };
    const isOurs = (found: Snapshot): boolean => found.labels[scratchLabel] === body.Labels[scratchLabel];
    const id = await engine.createContainer(name, body, signal).catch(async (error: unknown) => {
      if (mayHaveHappened(error, signal))
        await removeLostCreate({ name, isOurs, timeoutMs }, { engine, log });
      throw error;
    });
    try {
      return await work(id, signal);
    } finally {
      await withDeadline(undefined, timeoutMs, "remove scratch container", (own) =>
        engine.removeContainer(id, { force: true }, own),
      ).catch((error: unknown) => {
        log.error({ containerId: id, err: messageOf(error) }, "cannot remove a scratch container");
      });
    }
  }
}
