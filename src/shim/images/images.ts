import type { KeyedMutex } from "../../lib/sync/keyed-mutex.js";
import type { SingleFlight } from "../../lib/sync/single-flight.js";
import type { ImageCache } from "./image-cache.js";
import type { ImageDiskUsage } from "./image-disk-usage.js";
import type { ImageNames } from "./image-names.js";
import type { ImagePins } from "./image-pins.js";
import type { ImageUserReader } from "./image-user-reader.js";
import type { ImageVolumes } from "./image-volumes.js";
import type { PullRecords } from "./pull-records.js";
import type { ScratchContainers } from "./scratch-containers.js";

/** What this program knows of images, and does with them beside pulling and removing them. */
export interface Images {
  readonly cache: ImageCache;
  /** For metrics. */
  readonly names: ImageNames;
  readonly pins: ImagePins;
  readonly users: ImageUserReader;
  readonly volumes: ImageVolumes;
  readonly scratch: ScratchContainers;
  readonly pause: PauseImageSource;
  readonly diskUsage: ImageDiskUsage;
  /** One lock per image id. */
  readonly locks: KeyedMutex;
  /** Pulls under way: callers with the same reference and credentials share one, whose result is the image's id. */
  readonly pulls: SingleFlight<string>;
  /** For verbose Status. */
  readonly pullRecords: PullRecords;
}

/** The pause image, as src/shim/pause provides it. */
export interface PauseImageSource {
  /** The reference to create sandboxes from; pulls or loads it when it is absent. */
  ensure(signal: AbortSignal): Promise<string>;
  /** The engine turned out not to have it: ask again next time. */
  invalidate(): void;
  /** Whether one of an image's names is the pause image's. */
  isPinned(names: readonly string[]): boolean;
  /** As configured, for verbose Status. */
  readonly reference: string;
}
