/** The engine calls about images. */
import { withDeadline } from "../lib/abort.js";
import { isKind } from "../lib/errors.js";
import type { ImageSnapshot, ListedImage } from "../domain/snapshot.js";
import type { PullProgress, RegistryCredentials } from "../ports/engine.js";
import { readChunks } from "./http/answer.js";
import { type EngineClient, type EngineRequest, refusalOf } from "./http/client.js";
import { LayerSizes } from "./disk-usage.js";
import { diskUsageEssentials, imageEssentials, listedImageEssentials } from "./essentials.js";
import { toImageSnapshot, toListedImage } from "./images.js";
import { asList, asObject, type Json, objectOf } from "./http/json.js";
import { followProgress, pullQuery, registryAuthHeaders, toPullError } from "./registry/pull.js";

/** The API version from which `system/df` can leave out the volumes, whose sizes it counts file by file. */
const partialUsageMinor = 42;
/** The API version from which the list can tell whether an image was pulled, pushed or built. */
const identityMinor = 54;
const loadTimeoutMs = 10 * 60_000;
/** What two removals of one image that meet say, up to Docker 20.10. */
const goneMeanwhile = /unrecognized image ID|image does not exist|no such image/i;

export class ImageCalls {
  readonly #layerSizes = new LayerSizes();
  /** The API version to ask the list in; undefined where it tells no identities. */
  #identityApiMinor: number | undefined;

  constructor(private readonly client: EngineClient) {}

  /** To be called at each connect, with the API version that is spoken and the highest that the engine speaks. */
  useApi({ apiMinor, highestMinor }: { readonly apiMinor: number; readonly highestMinor: number }): void {
    this.#identityApiMinor = highestMinor < identityMinor ? undefined : Math.max(identityMinor, apiMinor);
  }

  async list(signal: AbortSignal): Promise<readonly ListedImage[]> {
    const request: EngineRequest = {
      action: "list images",
      method: "GET",
      path: ["images", "json"],
      concurrency: "read",
      // Identities come with the manifests only. An inspect has them as well, but may verify signatures for them.
      ...(this.#identityApiMinor !== undefined && {
        apiMinor: this.#identityApiMinor,
        query: { manifests: "1", identity: "1" },
      }),
    };
    const reading = { essentials: listedImageEssentials, convert: toListedImage };
    const images = await this.client.list(request, reading, signal);
    return images.filter((image) => image !== undefined);
  }

  async inspect(reference: string, signal: AbortSignal): Promise<ImageSnapshot | undefined> {
    const request = get(`inspect image "${reference}"`, reference, "json");
    const json = await this.client.jsonIfThere({ ...request, essentials: imageEssentials }, signal);
    return json === undefined ? undefined : toImageSnapshot(json);
  }

  async history(id: string, signal: AbortSignal): Promise<readonly Json[]> {
    const history = await unlessTooLarge(this.client.json(historyRequest(id), signal));
    return asList(history).map(asObject);
  }

  /** No deadline of its own: how long a pull may go without progress is the caller's rule. */
  async pull(
    reference: string,
    credentials: RegistryCredentials | undefined,
    onProgress: (progress: PullProgress) => void,
    signal: AbortSignal,
  ): Promise<void> {
    const request: EngineRequest = {
      action: `pull image "${reference}"`,
      method: "POST",
      path: ["images", "create"],
      query: pullQuery(reference),
      headers: registryAuthHeaders(reference, credentials),
      concurrency: "unlimited",
      timeoutMs: Infinity,
    };
    try {
      const response = await this.client.open(request, signal);
      await followProgress(readChunks(response, request.action, signal), request.action, onProgress);
    } catch (error) {
      throw toPullError(error);
    }
  }

  async remove(reference: string, signal: AbortSignal): Promise<"removed" | "missing"> {
    const action = `remove image "${reference}"`;
    const answer = await this.client.request(
      {
        ...{ action, method: "DELETE", path: ["images", ...reference.split("/")] },
        concurrency: "write",
        repeatable: true,
      },
      signal,
    );
    if (answer.status === 200) return "removed";
    if (answer.status === 404) return "missing";
    const error = refusalOf(answer);
    if (answer.status === 500 && goneMeanwhile.test(error.message)) return "missing";
    throw error;
  }

  async load(archive: Buffer, signal: AbortSignal): Promise<void> {
    const request: EngineRequest = {
      action: "load image",
      method: "POST",
      path: ["images", "load"],
      query: { quiet: "1" },
      headers: { "Content-Type": "application/x-tar" },
      tar: archive,
      concurrency: "unlimited",
      timeoutMs: loadTimeoutMs,
    };
    // The engine begins its answer when it has the archive, and ends it when it has the image.
    await withDeadline(signal, loadTimeoutMs, request.action, async (linked) => {
      const response = await this.client.open(request, linked);
      await followProgress(readChunks(response, request.action, linked), request.action, () => undefined);
    });
  }

  async diskUsage(apiMinor: number, signal: AbortSignal): Promise<number | undefined> {
    if (apiMinor < partialUsageMinor) {
      const images = await this.list(signal);
      return this.#layerSizes.sum(
        images.map((image) => image.id),
        async (id) => {
          const history = await unlessTooLarge(this.client.jsonIfThere(historyRequest(id), signal));
          return history === undefined ? undefined : asList(history);
        },
      );
    }
    const action = "read disk usage of images";
    const usage = asObject(
      await this.client.json(
        {
          ...{ action, method: "GET", path: ["system", "df"], query: { type: "image" }, concurrency: "read" },
          essentials: diskUsageEssentials,
        },
        signal,
      ),
    );
    // The second is where API 1.53 has it.
    const bytes = usage["LayersSize"] ?? objectOf(usage, "ImageUsage")["TotalSize"];
    return typeof bytes === "number" ? bytes : undefined;
  }
}

function get(action: string, reference: string, what: string): EngineRequest {
  return { action, method: "GET", path: ["images", ...reference.split("/"), what], concurrency: "read" };
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
