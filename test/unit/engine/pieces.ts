/** `bytes` in pieces of these sizes, over and over. */
export function* pieces(bytes: Buffer, sizes: readonly number[]): Generator<Buffer> {
  for (let start = 0, turn = 0; start < bytes.length; turn += 1) {
    const size = sizes[turn % sizes.length] ?? bytes.length;
    yield bytes.subarray(start, start + size);
    start += size;
  }
}

/** The same, each in a turn of its own. */
export async function* streamOf(bytes: Buffer, sizes: readonly number[]): AsyncGenerator<Buffer> {
  for (const piece of pieces(bytes, sizes)) {
    await Promise.resolve();
    yield piece;
  }
}
