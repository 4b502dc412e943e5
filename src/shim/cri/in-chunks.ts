/** The streamed forms of the list RPCs: the same items, in messages that stay below every limit. */
import type { Answer } from "../domain/cri.js";

/** Sends one message of a stream. Waits while the client does not read; throws when the call has ended. */
export type Send<Message> = (message: Answer<Message>) => Promise<void>;

const itemsPerMessage = 1000;

/**
 * Sends `items`, each once and in order, at most 1000 in a message. Nothing at all for none: an empty message would be
 * a mistake to some clients. grpc/list-bytes.ts divides once more what is too large.
 */
export async function inChunks<Item>(
  items: readonly Item[],
  sendChunk: (chunk: readonly Item[]) => Promise<void>,
): Promise<void> {
  for (let start = 0; start < items.length; start += itemsPerMessage) {
    await sendChunk(items.slice(start, start + itemsPerMessage));
  }
}
