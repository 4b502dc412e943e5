/** Which images a replay may remove, and which it compares. */
import { textAt, textsAt } from "../answers/answer-shape.js";
import type { AskedServer } from "../answers/asked-server.js";
import type { RecordedCall } from "../record/recording.js";

export class ReplayImages {
  /** Ids and names that recorded containers use. */
  readonly #used = new Set<string>();
  /** Ids at the endpoint before the first pull; undefined while they are not known. */
  #before: Promise<ReadonlySet<string> | undefined> | undefined;
  readonly #pulled = new Set<string>();

  constructor(private readonly endpoint: Pick<AskedServer, "ask">) {}

  /** To be called with each CreateContainer. */
  use({ request }: RecordedCall): void {
    const { config } = (request ?? {}) as { config?: { image?: unknown } };
    for (const name of ["image", "user_specified_image"]) {
      const image = textAt(config?.image, name);
      if (image !== "") this.#used.add(image);
    }
  }

  isUsed(image: unknown): boolean {
    const names = [textAt(image, "id"), ...textsAt(image, "repo_tags"), ...textsAt(image, "repo_digests")];
    return names.some((name) => this.#used.has(name));
  }

  /** To be called before each PullImage. Where the list fails, no image of this pull counts as pulled. */
  async beforePull(signal: AbortSignal): Promise<void> {
    this.#before ??= this.endpoint.ask("ListImages", {}, signal).then((answer) => {
      if ("error" in answer) return undefined;
      const { images = [] } = answer as { images?: readonly unknown[] };
      return new Set(images.map((image) => textAt(image, "id")));
    });
    if ((await this.#before) === undefined) this.#before = undefined;
  }

  /** To be called after each PullImage. */
  async afterPull(image: string, signal: AbortSignal): Promise<void> {
    const id = await this.idOf(image, signal);
    if (id !== "" && (await this.#before)?.has(id) === false) this.#pulled.add(id);
  }

  /** Whether the replay brought the image here. */
  async mayRemove(image: string, signal: AbortSignal): Promise<boolean> {
    return this.#pulled.has(await this.idOf(image, signal));
  }

  /** Empty when the endpoint does not have it. */
  async idOf(image: string, signal: AbortSignal): Promise<string> {
    if (image === "") return "";
    const answer = await this.endpoint.ask("ImageStatus", { image: { image } }, signal);
    return textAt((answer as { image?: unknown }).image, "id");
  }
}
