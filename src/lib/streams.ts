import type { Writable } from "node:stream";

/** Ends `stream` and waits until all data is flushed, or the stream is closed. Never rejects. */
export async function endOf(stream: Writable | undefined, lastChunk?: string): Promise<void> {
  if (stream === undefined || stream.writableFinished || stream.destroyed) return;
  await new Promise<void>((resolve) => {
    stream.once("finish", resolve);
    stream.once("close", resolve);
    if (stream.writableEnded) return;
    if (lastChunk === undefined || lastChunk === "") stream.end();
    else stream.end(lastChunk);
  });
}

/** All items, in order. */
export async function collect<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const all: Item[] = [];
  for await (const item of items) all.push(item);
  return all;
}

/**
 * The text up to `limitBytes`; the rest is not read. Rejects when the stream breaks off before, unless the part counts
 * then, too.
 */
export async function beginningOf(
  stream: AsyncIterable<Buffer>,
  limitBytes: number,
  { orPart = false }: { readonly orPart?: boolean } = {},
): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of stream) {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes >= limitBytes) break;
    }
  } catch (error) {
    if (!orPart) throw error;
  }
  return Buffer.concat(chunks).toString("utf8", 0, limitBytes);
}
