import { orAbort, withDeadline } from "../../lib/abort.js";
import type { Logger } from "../../lib/log.js";
import { isKind, messageOf } from "../../lib/errors.js";
import { SingleFlight } from "../../lib/sync/single-flight.js";
import { ImageUserFiles } from "../../domain/image-users.js";
import type { Engine } from "../ports/engine.js";
import type { ScratchContainers } from "./scratch-containers.js";
import { LruMap } from "../../lib/lru-map.js";

/** Largest user database that is read. It has some ten thousand users. */
const userFileLimitBytes = 4 * 1024 * 1024;
/** How long a status waits for a user database that is being read. */
const statusWaitMs = 1_000;

export interface ImageUserReaderDeps {
  readonly engine: Pick<Engine, "inspectImage" | "readContainerFile">;
  readonly scratch: Pick<ScratchContainers, "use">;
  readonly cache: ImageUsersCache;
  readonly log: Logger;
  readonly timeoutMs: number;
}

/** Reads `/etc/passwd` and `/etc/group` of images, once per image, through a scratch container. */
export class ImageUserReader {
  readonly #flights = new SingleFlight<ImageUserFiles | "tooLarge">();
  readonly #inFlight = new Map<string, Promise<unknown>>();

  constructor(private readonly deps: ImageUserReaderDeps) {}

  async read(imageId: string, signal: AbortSignal): Promise<ImageUserFiles | "tooLarge"> {
    const known = this.deps.cache.get(imageId);
    if (known !== undefined) return known;
    return this.#flights.run(imageId, signal, (shared) => this.#readThroughScratch(imageId, shared));
  }

  /** Reads in the background, for statuses. */
  prepare(imageId: string): void {
    if (this.deps.cache.get(imageId) !== undefined || this.#inFlight.has(imageId)) return;
    const { timeoutMs, log } = this.deps;
    const reading = withDeadline(undefined, timeoutMs, "read the image's users", (signal) =>
      this.read(imageId, signal),
    )
      .catch((error: unknown) => {
        log.warn({ image: imageId, err: messageOf(error) }, "cannot read the image's users");
      })
      .finally(() => this.#inFlight.delete(imageId));
    this.#inFlight.set(imageId, reading);
  }

  /** For statuses: the files if they are known, or being read; else undefined. */
  async whatIsKnown(imageId: string): Promise<ImageUserFiles | undefined> {
    const reading = this.#inFlight.get(imageId);
    if (reading !== undefined) {
      await withDeadline(undefined, statusWaitMs, "wait for the image's users", async (signal) => {
        // After the timeout the status is answered without them.
        await orAbort(reading, signal).catch(() => undefined);
      });
    }
    const files = this.deps.cache.get(imageId);
    return files === "tooLarge" ? undefined : files;
  }

  /** Returns when no read is running. Reads end with the scratch containers. */
  async idle(): Promise<void> {
    await Promise.allSettled(this.#inFlight.values());
  }

  async #readThroughScratch(imageId: string, signal: AbortSignal): Promise<ImageUserFiles | "tooLarge"> {
    const { engine, cache, scratch, log } = this.deps;
    // The create reports a missing image.
    const image = (await engine.inspectImage(imageId, signal)) ?? { id: imageId, volumes: [] };
    return scratch.use(image, signal, async (containerId, linked) => {
      const read = async (path: string): Promise<string> => {
        const content = await engine.readContainerFile(containerId, path, userFileLimitBytes, linked);
        return content?.toString("utf8") ?? "";
      };
      const files = await Promise.all([read("/etc/passwd"), read("/etc/group")]).then(
        ([passwd, group]) => new ImageUserFiles(passwd, group),
        (error: unknown) => {
          if (!isKind(error, "invalid")) throw error;
          log.warn({ image: imageId, err: messageOf(error) }, "the image's users are not read");
          return "tooLarge" as const;
        },
      );
      cache.put(imageId, files);
      return files;
    });
  }
}

/** Limit of all user databases that are kept. */
const capacityCharacters = 16 * 1024 * 1024;
/** What an image takes beside the text. */
const overheadCharacters = 1024;

/** Users of images by image id: the content of an id never changes. */
export class ImageUsersCache {
  readonly #files = new LruMap<string, ImageUserFiles | "tooLarge">(
    capacityCharacters,
    (files) => overheadCharacters + (files === "tooLarge" ? 0 : files.characters),
  );

  get(imageId: string): ImageUserFiles | "tooLarge" | undefined {
    return this.#files.get(imageId);
  }

  put(imageId: string, files: ImageUserFiles | "tooLarge"): void {
    this.#files.set(imageId, files);
  }
}
