import type { Writable } from "node:stream";

/** Ends `stream` and waits until all of it has been handed on, or it is of no use any more. Never rejects. */
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

/** All items, in order; for what cannot go on with the first one alone. */
export async function collect<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const all: Item[] = [];
  for await (const item of items) all.push(item);
  return all;
}
