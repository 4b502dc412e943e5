/** How far the pulls of pods are, from servers that report it: the CRI has no progress of pulls. */
import { normalizeReference } from "../../domain/image-reference.js";
import { asList, asObject, type Json, numberOf, objectsOf, textOf } from "../../lib/json/json-readers.js";
import type { CriClient } from "../cri/client.js";
import type { Clock } from "../kubelet/clock.js";
import type { PodKey } from "../manifests/read-manifests.js";
import { nameOf } from "../manifests/manifest.js";

interface Pull {
  readonly pod: string;
  readonly image: string;
  /** False when the server does not report the progress of pulls. */
  isFollowed: boolean;
  text: string | undefined;
}

/** Between an answer and the next question. */
const pollMs = 333;

/** Asks the server only while it is shown and a pull runs. */
export class PullProgress {
  readonly #pulls = new Set<Pull>();
  #shown: { readonly onChange: () => void; readonly stop: AbortController } | undefined;
  #isPolling = false;

  constructor(
    private readonly client: Pick<CriClient, "status">,
    private readonly clock: Clock,
  ) {}

  /** A client whose pulls are followed. */
  followed<T extends Pick<CriClient, "pullImage">>(client: T): T {
    return {
      ...client,
      pullImage: async (...call: Parameters<CriClient["pullImage"]>) => {
        const [image, { metadata }] = call;
        const pod = nameOf({ namespace: metadata?.namespace ?? "", name: metadata?.name ?? "" });
        const pull: Pull = { pod, image, isFollowed: true, text: undefined };
        this.#pulls.add(pull);
        this.#pollSoon();
        try {
          return await client.pullImage(...call);
        } finally {
          this.#pulls.delete(pull);
        }
      },
    };
  }

  /** The result ends it. */
  show(onChange: () => void): Disposable {
    const shown = { onChange, stop: new AbortController() };
    this.#shown = shown;
    this.#pollSoon();
    return {
      [Symbol.dispose]: () => {
        this.#shown = undefined;
        shown.stop.abort();
      },
    };
  }

  /** `Pulling busybox:1: 3/5 layers, 12.3/40.1 MiB`. Not escaped. */
  of(key: Pick<PodKey, "namespace" | "name">): string | undefined {
    return [...this.#pulls].find(({ pod, text }) => pod === nameOf(key) && text !== undefined)?.text;
  }

  #pollSoon(): void {
    if (this.#isPolling || this.#shown === undefined || this.#followed().length === 0) return;
    this.#isPolling = true;
    this.clock.after(pollMs, () => {
      void this.#poll().finally(() => {
        this.#isPolling = false;
        this.#pollSoon();
      });
    });
  }

  async #poll(): Promise<void> {
    const pulls = this.#followed();
    if (this.#shown === undefined || pulls.length === 0) return;
    const { onChange, stop } = this.#shown;
    try {
      const texts = readPulls((await this.client.status(stop.signal)).info);
      for (const pull of pulls) {
        const text = texts.get(normalizeReference(pull.image));
        if (text !== undefined) pull.text = `Pulling ${pull.image}: ${text}`;
      }
      if (texts.size > 0) onChange();
    } catch {
      // The pull itself fails with what is wrong with the server.
      for (const pull of pulls) pull.isFollowed = false;
    }
  }

  #followed(): readonly Pull[] {
    return [...this.#pulls].filter(({ isFollowed }) => isFollowed);
  }
}

/** By the full form of the reference. Throws for a server that does not report it. */
function readPulls(info: Readonly<Record<string, string>>): ReadonlyMap<string, string> {
  const pulls = JSON.parse(info["pulls"] ?? "") as unknown;
  const texts = new Map<string, string>();
  for (const pull of asList(pulls).map(asObject)) {
    const layers = objectsOf(pull, "layers");
    if (layers.length > 0) texts.set(normalizeReference(textOf(pull, "image")), describe(layers));
  }
  return texts;
}

function describe(layers: readonly Json[]): string {
  const done = layers.filter((layer) => /^(?:Pull complete|Already exists)$/.test(textOf(layer, "status")));
  const sum = (field: string): number => layers.reduce((bytes, layer) => bytes + numberOf(layer, field), 0);
  const total = sum("total");
  const count = `${done.length}/${layers.length} layers`;
  return total === 0 ? count : `${count}, ${mebibytes(sum("current"))}/${mebibytes(total)} MiB`;
}

function mebibytes(bytes: number): string {
  return (bytes / 1024 ** 2).toFixed(1);
}
