/** The progress of the pulls that run, as the engine tells it, for verbose Status. */
import type { Engine, PullProgress } from "../ports/engine.js";

export interface PulledLayer {
  /** As in the engine's progress: the beginning of the layer's digest. */
  readonly id: string;
  /** `Waiting`, `Downloading`, `Extracting`, `Pull complete`, `Already exists` … */
  readonly status: string;
  /** Downloaded bytes. */
  readonly current: number;
  /** Bytes to download; 0 while the engine has not told it, and of layers that were there before. */
  readonly total: number;
}

export interface RunningPull {
  /** As in PullImage. */
  readonly image: string;
  readonly layers: readonly PulledLayer[];
}

const pullLimit = 16;
const layerLimit = 128;
/** Limits of references and of the engine's texts, in characters. A reference has at most 255 characters and a digest. */
const imageLimit = 512;
const textLimit = 64;

/** Further pulls and layers are not recorded. */
export class PullRecords {
  readonly #pulls = new Set<{ readonly image: string; readonly layers: Map<string, PulledLayer> }>();

  /** An engine whose pulls are recorded until they end. */
  recorded(engine: Pick<Engine, "pullImage">): Pick<Engine, "pullImage"> {
    return {
      pullImage: async (image, credentials, onProgress, signal) => {
        const pull = { image, layers: new Map<string, PulledLayer>() };
        if (this.#pulls.size < pullLimit && image.length <= imageLimit) this.#pulls.add(pull);
        try {
          await engine.pullImage(
            image,
            credentials,
            (progress) => {
              record(pull.layers, progress);
              onProgress(progress);
            },
            signal,
          );
        } finally {
          this.#pulls.delete(pull);
        }
      },
    };
  }

  get running(): readonly RunningPull[] {
    return [...this.#pulls].map(({ image, layers }) => ({ image, layers: [...layers.values()] }));
  }
}

/**
 * Only `Downloading` counts bytes of the download. `Extracting` begins again at 0, with the same total or,
 * in the containerd image store, with seconds and no total; other messages have no numbers.
 */
function record(layers: Map<string, PulledLayer>, { layer, status, current, total }: PullProgress): void {
  // One message has the tag in the place of the layer; the last ones have neither.
  if (layer === "" || status.startsWith("Pulling from ")) return;
  const id = layer.slice(0, textLimit);
  const before = layers.get(id);
  if (before === undefined && layers.size >= layerLimit) return;
  const known = Math.max(total, before?.total ?? 0);
  const downloaded = status === "Downloading" ? current : isDownloaded(status) ? known : before?.current;
  layers.set(id, { id, status: status.slice(0, textLimit), current: downloaded ?? 0, total: known });
}

function isDownloaded(status: string): boolean {
  return /^(?:Verifying Checksum|Download complete|Extracting|Pull complete)$/.test(status);
}
