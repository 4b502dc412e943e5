import { randomBytes } from "node:crypto";
import { orAbort, withDeadline } from "../base/abort.js";
import type { Logger } from "../base/log.js";
import { messageOf } from "../base/errors.js";
import { SingleFlight } from "../base/single-flight.js";
import type { ImageUserFiles } from "../domain/image-users.js";
import { parseImageUserFiles } from "../domain/image-users.js";
import type { Engine } from "../ports/engine.js";
import type { ImageUsersCache } from "../state/image-users-cache.js";

/** Label of containers that exist only to read files of their image. */
export const scratchLabel = "dockershim.scratch";

/** A user database larger than this belongs to no container that anybody meant to run. */
const userFileLimitBytes = 256 * 1024;
/** How long a status waits for a user database that is just being read. */
const statusPatienceMs = 1_000;

export interface ImageUserReaderDeps {
  readonly engine: Pick<
    Engine,
    "createContainer" | "removeContainer" | "readContainerFile" | "listContainers"
  >;
  readonly cache: ImageUsersCache;
  readonly log: Logger;
  readonly timeoutMs: number;
  /** Tells this state directory from others on the same engine. */
  readonly place: string;
}

/**
 * Reads `/etc/passwd` and `/etc/group` of images. Docker shows files of containers only, and those of a pod's container
 * may come from its mounts or its processes, while the answer counts for every container of the image: so a container
 * that is never started, without mounts, stands in for the image, once per image.
 */
export class ImageUserReader {
  readonly #flights = new SingleFlight<ImageUserFiles>();
  readonly #inFlight = new Map<string, Promise<unknown>>();
  readonly #run = randomBytes(8).toString("hex");

  constructor(private readonly deps: ImageUserReaderDeps) {}

  async read(imageId: string, signal: AbortSignal): Promise<ImageUserFiles> {
    const known = this.deps.cache.get(imageId);
    if (known !== undefined) return known;
    return this.#flights.run(imageId, signal, (shared) => this.#readThroughScratch(imageId, shared));
  }

  /** Begins to read without anybody waiting; statuses do without when it fails. */
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

  /** For statuses: what is known, or is just being read; else undefined. */
  async whatIsKnown(imageId: string): Promise<ImageUserFiles | undefined> {
    const reading = this.#inFlight.get(imageId);
    if (reading !== undefined) {
      await withDeadline(undefined, statusPatienceMs, "wait for the image's users", async (signal) => {
        await Promise.race([reading, new Promise((resolve) => signal.addEventListener("abort", resolve))]);
      });
    }
    return this.deps.cache.get(imageId);
  }

  /** Returns when no scratch container of the image is left: it would count as a user of the image. */
  async settled(imageId: string, signal: AbortSignal): Promise<void> {
    const reading = this.#inFlight.get(imageId);
    if (reading !== undefined) await orAbort(reading, signal);
  }

  /** Removes scratch containers that an earlier run on the same state directory left behind. */
  async removeLeftovers(signal: AbortSignal): Promise<void> {
    const { engine, log, place } = this.deps;
    for (const { id, labels } of await engine.listContainers({ labelKey: scratchLabel }, signal)) {
      const [owner, run] = (labels[scratchLabel] ?? "").split("/");
      if (owner !== place || run === this.#run) continue;
      log.info({ containerId: id }, "removing a leftover scratch container");
      await engine.removeContainer(id, { force: true }, signal);
    }
  }

  async #readThroughScratch(imageId: string, signal: AbortSignal): Promise<ImageUserFiles> {
    const { engine, cache, log, place, timeoutMs } = this.deps;
    const body = {
      Image: imageId,
      // Never run, but Docker makes no container without a command.
      Entrypoint: ["none"],
      Labels: { [scratchLabel]: `${place}/${this.#run}` },
      HostConfig: { NetworkMode: "none" },
    };
    const name = `dockershim-scratch-${randomBytes(8).toString("hex")}`;
    const id = await engine.createContainer(name, body, signal);
    try {
      const [passwd, group] = await Promise.all(
        ["/etc/passwd", "/etc/group"].map(async (path) => {
          const content = await engine.readContainerFile(id, path, userFileLimitBytes, signal);
          return content?.toString("utf8") ?? "";
        }),
      );
      const files = parseImageUserFiles(passwd ?? "", group ?? "");
      cache.put(imageId, files);
      return files;
    } finally {
      await withDeadline(undefined, timeoutMs, "remove scratch container", (own) =>
        engine.removeContainer(id, { force: true }, own),
      ).catch((error: unknown) => {
        log.error({ containerId: id, err: messageOf(error) }, "cannot remove a scratch container");
      });
    }
  }
}
