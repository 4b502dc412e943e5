/** The calls about images. */
import { createHash } from "node:crypto";
import { withDeadline } from "../../lib/abort.js";
import { isKind } from "../../lib/errors.js";
import type { ImageCalls } from "../ports/engine.js";
import { readChunks } from "./http/answer.js";
import { type EngineClient, type EngineRequest, refusalOf } from "./http/client.js";
import { asList, asObject, numberOf, objectOf } from "../../lib/json/json-readers.js";
import { type Essentials, members } from "./http/json-stream.js";
import { imageEssentials, listedImageEssentials, toImageSnapshot, toListedImage } from "./image-snapshot.js";
import { followProgress, pullQuery, registryAuthHeaders, toPullError } from "./pull-protocol.js";

/** The API version from which `system/df` can leave out the volumes, whose sizes it counts file by file. */
const partialUsageMinor = 42;
/** The API version from which the list can tell whether an image was pulled, pushed or built. */
const identityMinor = 54;
const loadTimeoutMs = 10 * 60_000;
/** What two removals of one image that meet say, up to Docker 20.10. */
const goneMeanwhile = /unrecognized image ID|image does not exist|no such image/i;
/** Fields read of `GET /system/df`. */
const diskUsageEssentials: Essentials = { LayersSize: true, ImageUsage: members("TotalSize") };

export function imageCalls(client: EngineClient): ImageCalls {
  const layerSizes = new LayerSizes();

  const listImages: ImageCalls["listImages"] = async (signal) => {
    const request: EngineRequest = {
      action: "list images",
      method: "GET",
      path: ["images", "json"],
      // Identities come with the manifests only. An inspect has them as well, but may verify signatures for
      // them.
      ...(client.highestMinor >= identityMinor && {
        apiMinor: Math.max(identityMinor, client.apiMinor),
        query: { manifests: "1", identity: "1" },
      }),
    };
    const reading = { essentials: listedImageEssentials, convert: toListedImage };
    const images = await client.list(request, reading, signal);
    return images.filter((image) => image !== undefined);
  };

  return {
    listImages,

    async inspectImage(reference, signal) {
      const request = get(`inspect image "${reference}"`, reference, "json");
      const json = await client.jsonIfThere({ ...request, essentials: imageEssentials }, signal);
      return json === undefined ? undefined : toImageSnapshot(json);
    },

    async imageHistory(id, signal) {
      const history = await unlessTooLarge(client.json(historyRequest(id), signal));
      return asList(history).map(asObject);
    },

    /** No deadline of its own: how long a pull may go without progress is the caller's rule. */
    async pullImage(reference, credentials, onProgress, signal) {
      const request: EngineRequest = {
        action: `pull image "${reference}"`,
        method: "POST",
        path: ["images", "create"],
        query: pullQuery(reference),
        headers: registryAuthHeaders(reference, credentials),
        timeoutMs: Infinity,
      };
      try {
        const response = await client.open(request, signal);
        await followProgress(readChunks(response, request.action, signal), request.action, onProgress);
      } catch (error) {
        throw toPullError(error);
      }
    },

    async removeImage(reference, signal) {
      const request: EngineRequest = {
        action: `remove image "${reference}"`,
        method: "DELETE",
        path: ["images", ...reference.split("/")],
        repeatable: true,
      };
      const answer = await client.request(request, signal);
      if (answer.status === 200) return "removed";
      if (answer.status === 404) return "missing";
      const error = refusalOf(answer);
      if (answer.status === 500 && goneMeanwhile.test(error.message)) return "missing";
      throw error;
    },

    async loadImage(archive, signal) {
      const request: EngineRequest = {
        action: "load image",
        method: "POST",
        path: ["images", "load"],
        query: { quiet: "1" },
        headers: { "Content-Type": "application/x-tar" },
        tar: archive,
        timeoutMs: loadTimeoutMs,
      };
      // The engine begins its answer when it has the archive, and ends it when it has the image.
      await withDeadline(signal, loadTimeoutMs, request.action, async (linked) => {
        const response = await client.open(request, linked);
        await followProgress(readChunks(response, request.action, linked), request.action, () => undefined);
      });
    },

    async imageDiskUsage(signal) {
      if (client.apiMinor < partialUsageMinor) {
        const images = await listImages(signal);
        return layerSizes.sum(
          images.map((image) => image.id),
          async (id) => {
            const history = await unlessTooLarge(client.jsonIfThere(historyRequest(id), signal));
            return history === undefined ? undefined : asList(history);
          },
        );
      }
      const request: EngineRequest = {
        action: "read disk usage of images",
        method: "GET",
        path: ["system", "df"],
        query: { type: "image" },
        essentials: diskUsageEssentials,
      };
      const usage = asObject(await client.json(request, signal));
      // The second is where API 1.53 has it.
      const bytes = usage["LayersSize"] ?? objectOf(usage, "ImageUsage")["TotalSize"];
      return typeof bytes === "number" ? bytes : undefined;
    },
  };
}

function get(action: string, reference: string, what: string): EngineRequest {
  return { action, method: "GET", path: ["images", ...reference.split("/"), what] };
}

function historyRequest(id: string): EngineRequest {
  return get(`read history of image "${id}"`, id, "history");
}

/** An empty list for one that is too large: only that image goes without its history. */
async function unlessTooLarge(history: Promise<unknown>): Promise<unknown> {
  try {
    return await history;
  } catch (error) {
    if (isKind(error, "exhausted")) return [];
    throw error;
  }
}

interface Layer {
  /** The history of the layer and of all below it: children inherit the history of their parents. */
  readonly key: string;
  /** Bytes. */
  readonly size: number;
}

/** Sums up layers over images, shared ones once. A history never changes: it is read once per image. */
export class LayerSizes {
  #known: ReadonlyMap<string, readonly Layer[]> = new Map<string, readonly Layer[]>();

  /** Bytes. `historyOf` answers undefined for an image that is gone meanwhile. */
  async sum(
    imageIds: readonly string[],
    historyOf: (id: string) => Promise<readonly unknown[] | undefined>,
  ): Promise<number> {
    const known = new Map<string, readonly Layer[]>();
    for (const id of imageIds) {
      const history = this.#known.has(id) ? undefined : await historyOf(id);
      const layers = this.#known.get(id) ?? (history === undefined ? undefined : toLayers(history));
      if (layers !== undefined) known.set(id, layers);
    }
    this.#known = known;
    const sizes = new Map([...known.values()].flat().map((layer) => [layer.key, layer.size]));
    return [...sizes.values()].reduce((total, size) => total + size, 0);
  }
}

/** The answer of `GET /images/{id}/history`, whose lowest layer is the last. */
function toLayers(history: readonly unknown[]): readonly Layer[] {
  let key = "";
  return history
    .map(asObject)
    .toReversed()
    .map((entry) => {
      const description = JSON.stringify([key, entry["Created"], entry["CreatedBy"], entry["Size"]]);
      key = createHash("sha256").update(description).digest("base64");
      return { key, size: numberOf(entry, "Size") };
    });
}
