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
