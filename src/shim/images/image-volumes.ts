import { orAbort, withDeadline } from "../../lib/abort.js";
import { messageOf, ShimError } from "../../lib/errors.js";
import type { KeyedMutex } from "../../lib/sync/keyed-mutex.js";
import type { Logger } from "../../lib/log.js";
import { LruMap } from "../../lib/lru-map.js";
import { imageMountsOf } from "../../domain/image-mounts.js";
import type { Labels } from "../../domain/labels.js";
import type { NodeFacts } from "../../domain/node-facts.js";
import type { ImageSnapshot } from "../../domain/snapshot.js";
import { engineImageSource, type ImageVolumeNeed, type ImageVolumeSource } from "../plan/image-volumes.js";
import type { Engine } from "../ports/engine.js";
import type { ReadModel } from "../state/read-model.js";
import { findImage } from "./find-image.js";
import { findImageDirectory, type ImageVolumeStore } from "./image-volume-store.js";
import type { ScratchContainers } from "./scratch-containers.js";

export interface ImageVolumesDeps {
  readonly engine: Pick<Engine, "inspectImage" | "statArchive">;
  readonly store: ImageVolumeStore;
  readonly scratch: Pick<ScratchContainers, "use">;
  readonly model: Pick<ReadModel, "containerEntries">;
  /** One lock per image id, shared with the removal of images. */
  readonly imageLocks: KeyedMutex;
  readonly log: Logger;
  readonly limits: ImageVolumeLimits;
}

/** Milliseconds. */
export interface ImageVolumeLimits {
  /** Limit for providing the files of an image: copies depend on the engine's disk. */
  readonly provideMs: number;
  /** How long an unused volume is kept for a kubelet that tries again. */
  readonly keepMs: number;
  readonly cleanUpMs: number;
}

/** As long as loading an image may take; kubelets retry after 10 seconds to 5 minutes. */
export const defaultImageVolumeLimits = { provideMs: 10 * 60_000, keepMs: 6 * 60_000 };

/** The files by the index of the mount. When the lease ends, volumes without a container are removed. */
export interface ImageVolumeLease extends AsyncDisposable {
  readonly sources: ReadonlyMap<number, ImageVolumeSource>;
}

/** Number of resolved sub paths that are kept: the content of an image never changes. */
const maximumPaths = 1_000;

interface Provided {
  readonly volume: string;
  readonly subPath: string;
}

/**
 * Image volumes: the files of images in containers of other images. The labels of containers are the only
 * record of which volumes they use, so no other state survives a restart.
 */
export class ImageVolumes {
  /** Number of calls per image id that need it and have no container yet. */
  readonly #leases = new Map<string, number>();
  readonly #flights = new Map<string, { readonly imageId: string; readonly provided: Promise<Provided> }>();
  readonly #paths = new LruMap<string, string>(maximumPaths);
  readonly #keepTimers = new Map<string, NodeJS.Timeout>();
  /** Removals of unused volumes in the background. */
  readonly #releasing = new Set<Promise<void>>();
  readonly #stopped = new AbortController();

  constructor(private readonly deps: ImageVolumesDeps) {}

  /** Errors begin with `ImageVolumeMountFailed`, the constant of the CRI. */
  async lease(
    needs: readonly ImageVolumeNeed[],
    facts: NodeFacts,
    signal: AbortSignal,
  ): Promise<ImageVolumeLease> {
    const held: string[] = [];
    /** Volume → image id; an empty name stands for a volume that is being provided. */
    const volumes = new Map<string, string>();
    const end = async (): Promise<void> => {
      for (const imageId of held.splice(0)) this.#endLease(imageId);
      const used = volumes.size === 0 ? undefined : this.#usedVolumes();
      const unused = [...volumes].filter(([volume]) => used?.has(volume) !== true);
      for (const imageId of new Set(unused.map(([, id]) => id))) await this.#releaseQuietly(imageId);
    };
    try {
      const images = new Map<number, string>();
      for (const { index, image } of needs) {
        const found = await findImage(this.deps.engine, image, signal);
        if (found === undefined) throw noImage(image);
        images.set(index, found.id);
        held.push(found.id);
        this.#leases.set(found.id, (this.#leases.get(found.id) ?? 0) + 1);
      }
      const sources = new Map<number, ImageVolumeSource>();
      for (const need of needs) {
        const imageId = images.get(need.index) ?? "";
        const times = [...images.values()].filter((one) => one === imageId).length;
        const image = engineImageSource(imageId, need.containerPath, { times }, facts);
        const way = image === undefined ? "volume" : "engine";
        if (way === "volume") volumes.set("", imageId);
        const { volume, subPath } = await this.#provided(imageId, need.subPath, way, facts, signal);
        if (volumes.delete("")) volumes.set(volume, imageId);
        sources.set(need.index, { imageId, subPath, from: image === undefined ? { volume } : { image } });
      }
      return { sources, [Symbol.asyncDispose]: end };
    } catch (error) {
      await end();
      throw mountFailed(ShimError.from(error));
    }
  }

  /**
   * Called when a container with these labels left the read model. Removes the volumes that only it used, in
   * the background; failures are logged, and repaired after the next start.
   */
  containerGone(labels: Labels): void {
    if (this.#stopped.signal.aborted) return;
    const used = this.#usedVolumes();
    const left = imageMountsOf(labels).filter(({ volume }) => volume !== "" && !used.has(volume));
    for (const imageId of new Set(left.map((mount) => mount.imageId))) {
      const volumes = left.filter((mount) => mount.imageId === imageId).map(({ volume }) => volume);
      this.#releaseInBackground(imageId, volumes);
    }
  }

  /** Returns when the volumes of all containers that are gone by now are removed; throws the reason of `signal`. */
  async released(signal: AbortSignal): Promise<void> {
    if (this.#releasing.size > 0) await orAbort(Promise.all(this.#releasing), signal);
  }

  /**
   * Throws `precondition` when an image volume needs the image; else removes its unused volumes. The caller
   * holds the image's lock.
   */
  async requireUnused(imageId: string, signal: AbortSignal): Promise<void> {
    for (const { id, snapshot } of this.deps.model.containerEntries()) {
      if (imageMountsOf(snapshot.labels).some((mount) => mount.imageId === imageId)) {
        const message = `container "${id}" uses it as an image volume`;
        throw new ShimError("precondition", message, { image: imageId, containerId: id });
      }
    }
    if (this.#leases.has(imageId)) {
      throw new ShimError("precondition", "a container is being created that uses it as an image volume", {
        image: imageId,
      });
    }
    await this.#release(imageId, signal);
  }

  /** After a start, with a live read model: removes unused volumes and pins, and creates missing pins again. */
  async cleanUp(signal: AbortSignal): Promise<void> {
    const { store, imageLocks } = this.deps;
    const volumes = await store.volumes(signal);
    const pins = await store.pins(signal);
    for (const imageId of new Set(pins.map((pin) => pin.imageId))) {
      await this.#attempt("remove unused image volumes", { image: imageId }, () =>
        imageLocks.run(imageId, signal, () => this.#release(imageId, signal)),
      );
    }
    const pinned = new Set(pins.map((pin) => pin.name));
    for (const name of volumes) {
      if (pinned.has(name)) continue;
      const imageId = this.#usedVolumes().get(name);
      await this.#attempt("clean up an image volume", { volume: name }, () =>
        // Without its image, and so without its lock.
        imageId === undefined
          ? store.removeUnpinned(name, signal)
          : imageLocks.run(imageId, signal, () => this.#pinAgain(name, imageId, signal)),
      );
    }
  }

  async #pinAgain(name: string, imageId: string, signal: AbortSignal): Promise<void> {
    const { engine, store } = this.deps;
    const image = await engine.inspectImage(imageId, signal);
    if (image === undefined) throw noImage(imageId);
    await store.pin({ name, image }, signal);
  }

  /** Ends all work in the background, and returns when it has ended. */
  async stop(): Promise<void> {
    this.#stopped.abort(new ShimError("cancelled", "the shim is stopping"));
    for (const timer of this.#keepTimers.values()) clearTimeout(timer);
    this.#keepTimers.clear();
    const flights = [...this.#flights.values()].map(({ provided }) => provided);
    await Promise.allSettled([...flights, ...this.#releasing]);
  }

  /**
   * Concurrent callers share one provision. It continues when they leave: a copy can take longer than a
   * kubelet waits, and would never complete if each attempt began again.
   */
  async #provided(
    imageId: string,
    subPath: string,
    way: "engine" | "volume",
    facts: NodeFacts,
    signal: AbortSignal,
  ): Promise<Provided> {
    const key = JSON.stringify([imageId, subPath, way]);
    const known = this.#flights.get(key);
    if (known !== undefined) return orAbort(known.provided, signal);
    const { imageLocks, limits } = this.deps;
    this.#stopped.signal.throwIfAborted();
    const provided = withDeadline(this.#stopped.signal, limits.provideMs, "provide its files", (own) =>
      imageLocks.run(imageId, own, () => this.#provide(imageId, subPath, way, facts, own)),
    ).finally(() => {
      this.#flights.delete(key);
      // For kubelets that try again. The removal then also finds volumes of abandoned creates.
      if (way === "volume") this.#keepForRetry(imageId);
    });
    provided.catch(() => undefined); // Thrown by the callers that still wait.
    this.#flights.set(key, { imageId, provided });
    return orAbort(provided, signal);
  }

  async #provide(
    imageId: string,
    subPath: string,
    way: "engine" | "volume",
    facts: NodeFacts,
    signal: AbortSignal,
  ): Promise<Provided> {
    const { engine, store } = this.deps;
    const image = await engine.inspectImage(imageId, signal);
    if (image === undefined) throw noImage(imageId);
    const path = await this.#resolve(image, subPath, signal);
    if (way === "engine") return { volume: "", subPath: path };
    return store.provide({ image, path }, facts, (name) => this.#usedVolumes().has(name), signal);
  }

  async #resolve(image: ImageSnapshot, subPath: string, signal: AbortSignal): Promise<string> {
    if (subPath === "") return "";
    const { engine, scratch } = this.deps;
    const key = JSON.stringify([image.id, subPath]);
    const path =
      this.#paths.get(key) ??
      (await scratch.use(image, signal, (id, linked) => findImageDirectory(id, subPath, engine, linked)));
    this.#paths.set(key, path);
    return path;
  }

  #endLease(imageId: string): void {
    const left = (this.#leases.get(imageId) ?? 1) - 1;
    if (left > 0) this.#leases.set(imageId, left);
    else this.#leases.delete(imageId);
  }

  #keepForRetry(imageId: string): void {
    if (this.#stopped.signal.aborted) return;
    clearTimeout(this.#keepTimers.get(imageId));
    const timer = setTimeout(() => {
      this.#keepTimers.delete(imageId);
      this.#releaseInBackground(imageId);
    }, this.deps.limits.keepMs);
    timer.unref();
    this.#keepTimers.set(imageId, timer);
  }

  /** `stop` waits for it. */
  #releaseInBackground(imageId: string, volumes: readonly string[] = []): void {
    const releasing = this.#releaseQuietly(imageId, volumes).finally(() => this.#releasing.delete(releasing));
    this.#releasing.add(releasing);
  }

  /** `volumes`: names of volumes that may have lost their pin. */
  async #releaseQuietly(imageId: string, volumes: readonly string[] = []): Promise<void> {
    // An image in use is kept, and examined again later.
    if (
      [...this.#flights.values()].some((flight) => flight.imageId === imageId) ||
      this.#leases.has(imageId)
    ) {
      this.#keepForRetry(imageId);
      return;
    }
    const { imageLocks, limits } = this.deps;
    const action = "remove unused image volumes";
    await this.#attempt(action, { image: imageId }, () =>
      withDeadline(this.#stopped.signal, limits.cleanUpMs, action, (signal) =>
        imageLocks.run(imageId, signal, () => this.#release(imageId, signal, volumes)),
      ),
    );
  }

  /** The caller holds the image's lock. */
  async #release(imageId: string, signal: AbortSignal, volumes: readonly string[] = []): Promise<void> {
    if (this.#leases.has(imageId)) return;
    const { store } = this.deps;
    const pins = await store.pins(signal);
    for (const pin of pins) {
      if (pin.imageId === imageId && !this.#usedVolumes().has(pin.name)) await store.remove(pin.name, signal);
    }
    const unpinned = volumes.filter((name) => !pins.some((pin) => pin.name === name));
    if (unpinned.length === 0) return;
    // Only volumes of this state directory: the names are from the label of a container.
    const ours = await store.volumes(signal);
    for (const name of unpinned) if (ours.includes(name)) await store.removeUnpinned(name, signal);
  }

  async #attempt(
    action: string,
    fields: Readonly<Record<string, string>>,
    work: () => Promise<void>,
  ): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.deps.log.warn({ ...fields, action, err: messageOf(error) }, "clean-up of image volumes failed");
    }
  }

  /** Volume → image id, of all containers of pods. */
  #usedVolumes(): ReadonlyMap<string, string> {
    const used = new Map<string, string>();
    for (const { snapshot } of this.deps.model.containerEntries()) {
      for (const { volume, imageId } of imageMountsOf(snapshot.labels)) used.set(volume, imageId);
    }
    return used;
  }
}

function noImage(image: string): ShimError {
  return new ShimError("precondition", `no such image "${image}"`, { image });
}

/** Kubelets show the text after the constant. A timeout and an abort stay as they are. */
function mountFailed(error: ShimError): ShimError {
  if (error.kind === "cancelled" || error.kind === "timeout") return error;
  // Kubelets would take "not found" for a missing sandbox or container.
  const kind = error.kind === "notFound" || error.kind === "conflict" ? "precondition" : error.kind;
  const message = `ImageVolumeMountFailed: provide the image volume: ${error.message}`;
  return new ShimError(kind, message, error.fields, { cause: error });
}
