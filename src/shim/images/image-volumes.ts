import { orAbort, withDeadline } from "../lib/abort.js";
import { messageOf, ShimError } from "../lib/errors.js";
import type { KeyedMutex } from "../lib/sync/keyed-mutex.js";
import type { Logger } from "../lib/log.js";
import { LruMap } from "../lib/lru-map.js";
import { imageMountsOf } from "../domain/image-mounts.js";
import type { Labels } from "../domain/labels.js";
import type { NodeFacts } from "../domain/node-facts.js";
import type { ImageSnapshot } from "../domain/snapshot.js";
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
  /** Until the files of an image are there. Copying takes as long as the engine's disk. */
  readonly provideMs: number;
  /** How long a volume is kept for a caller that left and may come again. */
  readonly keepMs: number;
  readonly cleanUpMs: number;
}

/** Loading an image gets as long; a kubelet that gave up comes again after some 10 seconds to 5 minutes. */
export const defaultImageVolumeLimits = { provideMs: 10 * 60_000, keepMs: 6 * 60_000 };

/** Where the files are, by the index of the mount. What is not in use by then goes when the lease ends. */
export interface ImageVolumeLease extends AsyncDisposable {
  readonly sources: ReadonlyMap<number, ImageVolumeSource>;
}

/** Resolved sub paths that are remembered: what is in an image never changes. */
const knownPaths = 1_000;

interface Provided {
  readonly volume: string;
  readonly subPath: string;
}

/**
 * Files of images for containers that are not made of them. Who uses what is in the labels of the containers alone, so
 * nothing needs to be remembered over a restart.
 */
export class ImageVolumes {
  /** Calls that need an image but have no container yet, by image id. */
  readonly #leases = new Map<string, number>();
  readonly #flights = new Map<string, { readonly imageId: string; readonly provided: Promise<Provided> }>();
  readonly #paths = new LruMap<string, string>(knownPaths);
  readonly #keepers = new Map<string, NodeJS.Timeout>();
  /** What is done in the background, for containers that are gone and for what nobody came back for. */
  readonly #releasing = new Set<Promise<void>>();
  readonly #stopped = new AbortController();

  constructor(private readonly deps: ImageVolumesDeps) {}

  /** Throws with the CRI's constant before the message. */
  async lease(
    needs: readonly ImageVolumeNeed[],
    facts: NodeFacts,
    signal: AbortSignal,
  ): Promise<ImageVolumeLease> {
    const held: string[] = [];
    /** Volume → image id; under the empty name while there is none yet. */
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
   * A container with these labels is gone from the read model, whoever removed it: what only it used goes, too, in the
   * background. Failures are logged; the next look mends them.
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

  /** Returns when that has been done for all containers that are gone by now; throws the reason of `signal`. */
  async released(signal: AbortSignal): Promise<void> {
    if (this.#releasing.size > 0) await orAbort(Promise.all(this.#releasing), signal);
  }

  /**
   * `precondition` when the image is needed by an image volume; else nothing of image volumes is left of it. The caller
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

  /**
   * Compares with what is there, after a start: removes what nobody uses, makes pins that somebody has removed. For when
   * the read model is live.
   */
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
      await this.#attempt("look after an image volume", { volume: name }, () =>
        // Of which image it is, and so its lock, is not known.
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

  /** Ends what is being provided, and returns when it has ended. */
  async stop(): Promise<void> {
    this.#stopped.abort(new ShimError("cancelled", "the shim is stopping"));
    for (const timer of this.#keepers.values()) clearTimeout(timer);
    this.#keepers.clear();
    const flights = [...this.#flights.values()].map(({ provided }) => provided);
    await Promise.allSettled([...flights, ...this.#releasing]);
  }

  /**
   * One piece of work for all who ask at the same time. It goes on when they leave: a copy can take longer than a
   * kubelet waits, and would never end if each of its attempts began anew.
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
      // For callers that come again; and what a create made late, whose answer was lost, is seen then.
      if (way === "volume") this.#keepForAWhile(imageId);
    });
    provided.catch(() => undefined); // Heard by the callers that are still there.
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

  #keepForAWhile(imageId: string): void {
    if (this.#stopped.signal.aborted) return;
    clearTimeout(this.#keepers.get(imageId));
    const timer = setTimeout(() => {
      this.#keepers.delete(imageId);
      this.#releaseInBackground(imageId);
    }, this.deps.limits.keepMs);
    timer.unref();
    this.#keepers.set(imageId, timer);
  }

  /** `stop` waits for it. */
  #releaseInBackground(imageId: string, volumes: readonly string[] = []): void {
    const releasing = this.#releaseQuietly(imageId, volumes).finally(() => {
      this.#releasing.delete(releasing);
    });
    this.#releasing.add(releasing);
  }

  /** `volumes`: names of which some may have lost their pin. */
  async #releaseQuietly(imageId: string, volumes: readonly string[] = []): Promise<void> {
    // What is just being provided is kept for those who come again.
    if (
      [...this.#flights.values()].some((flight) => flight.imageId === imageId) ||
      this.#leases.has(imageId)
    ) {
      this.#keepForAWhile(imageId);
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

  /** Held by the caller: the image's lock. */
  async #release(imageId: string, signal: AbortSignal, volumes: readonly string[] = []): Promise<void> {
    if (this.#leases.has(imageId)) return;
    const { store } = this.deps;
    const pins = await store.pins(signal);
    for (const pin of pins) {
      if (pin.imageId === imageId && !this.#usedVolumes().has(pin.name)) await store.remove(pin.name, signal);
    }
    const unpinned = volumes.filter((name) => !pins.some((pin) => pin.name === name));
    if (unpinned.length === 0) return;
    // Only what is ours: the names are from the label of a container.
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
      this.deps.log.warn({ ...fields, err: messageOf(error) }, `cannot ${action}`);
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

/** Kubelets show what stands behind the constant; a deadline or a caller that left is what it is. */
function mountFailed(error: ShimError): ShimError {
  if (error.kind === "cancelled" || error.kind === "timeout") return error;
  // The image is missing, not the sandbox or the container: kubelets would take "not found" for those.
  const kind = error.kind === "notFound" || error.kind === "conflict" ? "precondition" : error.kind;
  const message = `ImageVolumeMountFailed: provide the image volume: ${error.message}`;
  return new ShimError(kind, message, error.fields, { cause: error });
}
