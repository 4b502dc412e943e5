/** What a chunk takes beside its bytes: a client that sends single bytes must not cost hundreds of times as much. */
const chunkOverheadBytes = 256;

/** What holding a received chunk unread takes, in bytes: what the limits of unread input count. */
export function chunkCostBytes(chunk: Buffer): number {
  return chunk.length + chunkOverheadBytes;
}
