/** The size of all image layers, on engines that tell it only together with the (slowly counted) one of all volumes. */
import { createHash } from "node:crypto";
import { asObject, numberOf } from "./http/json.js";

interface Layer {
  /** Names a layer by its own history entry and all below it, as children inherit the history of their parents. */
  readonly key: string;
  /** Bytes. */
  readonly size: number;
}

/** Sums up layers over images, shared ones once. A history never changes: each image costs one engine call in its life. */
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
