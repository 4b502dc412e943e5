/** What is read of images, and mounted of them, through containers that are never started. */
import { createHash } from "node:crypto";
import { KeyedMutex } from "../lib/sync/keyed-mutex.js";
import type { Lifetime } from "../lib/lifetime.js";
import type { Logger } from "../lib/log.js";
import type { Engine } from "../ports/engine.js";
import type { HostAccess } from "../ports/host.js";
import { ImageUserReader, ImageUsersCache } from "../images/image-user-reader.js";
import { ImageVolumeStore } from "../images/image-volume-store.js";
import { defaultImageVolumeLimits, ImageVolumes } from "../images/image-volumes.js";
import { ScratchContainers } from "../images/scratch-containers.js";
import type { Services } from "../cri/services.js";
import type { ReadModel } from "../state/read-model.js";

export function openImageHelpers(
  options: {
    readonly engine: Engine;
    readonly model: ReadModel;
    readonly host: () => HostAccess;
    readonly log: Logger;
    readonly cleanUpTimeoutMs: number;
    readonly stateDir: string;
  },
  lifetime: Lifetime,
): Pick<Services, "scratch" | "imageUsers" | "imageVolumes" | "imageLocks"> {
  const { engine, model, host, log, cleanUpTimeoutMs, stateDir } = options;
  // Tells what this state directory has in the engine from that of others.
  const place = createHash("sha256").update(stateDir).digest("hex").slice(0, 16);
  const scratch = new ScratchContainers({ engine, log, timeoutMs: cleanUpTimeoutMs, place });
  const imageUsers = new ImageUserReader({
    ...{ engine, scratch, cache: new ImageUsersCache(), log, timeoutMs: cleanUpTimeoutMs },
  });
  const imageLocks = new KeyedMutex();
  const imageVolumes = new ImageVolumes({
    ...{ engine, scratch, model, imageLocks, log },
    store: new ImageVolumeStore({ engine, host, scratch, log, cleanUpTimeoutMs, place }),
    limits: { ...defaultImageVolumeLimits, cleanUpMs: cleanUpTimeoutMs },
  });
  model.onChange(({ before, after }) => {
    if (before !== undefined && after === undefined) imageVolumes.containerGone(before.labels);
  });
  lifetime.onClose("reading and mounting of images", async () => {
    await Promise.all([imageVolumes.stop(), scratch.stop()]);
    await imageUsers.idle();
  });
  return { scratch, imageUsers, imageVolumes, imageLocks };
}
