/** Docker's framing of two output streams in one. */
import { ShimError } from "../base/errors.js";
import type { OutputChunk } from "../ports/engine.js";

const headerBytes = 8;
/** Docker writes frames of at most some 32 KiB; beyond this it is not a frame but something else. */
const frameLimitBytes = 256 * 1024 * 1024;

/**
 * The pieces of stdout and stderr in the order of the frames, which are `type, 0, 0, 0, length (big endian), data`.
 * Nothing is copied or held back: a frame comes in as many pieces as it arrives in, and the next is read when the last
 * one has been taken. Throws `unavailable` when the stream ends within a frame, `unknown` for an error that the engine
 * reports (type 3) and for what is not a frame.
 */
export async function* demultiplex(
  chunks: AsyncIterable<Buffer>,
): AsyncGenerator<OutputChunk, void, undefined> {
  const header = Buffer.alloc(headerBytes);
  let headerSize = 0;
  let type = 0;
  let remaining = 0;
  const report: Buffer[] = [];
  for await (const chunk of chunks) {
    let offset = 0;
    while (offset < chunk.length) {
      if (remaining === 0) {
        const copied = chunk.copy(header, headerSize, offset, offset + headerBytes - headerSize);
        headerSize += copied;
        offset += copied;
        if (headerSize < headerBytes) break;
        headerSize = 0;
        type = header.readUInt8(0);
        remaining = header.readUInt32BE(4);
        if (type > 3 || header.readUIntBE(1, 3) !== 0 || remaining > frameLimitBytes) {
          throw new ShimError(
            "unknown",
            "read process output: the engine sent something that is not a frame",
          );
        }
        continue;
      }
      const data = chunk.subarray(offset, offset + remaining);
      offset += data.length;
      remaining -= data.length;
      if (type === 3) report.push(data);
      else yield { stream: type === 2 ? "stderr" : "stdout", data };
      if (type === 3 && remaining === 0) {
        const text = Buffer.concat(report).toString("utf8").trim().slice(0, 4096);
        throw new ShimError("unknown", `read process output: ${text}`);
      }
    }
  }
  if (remaining > 0 || headerSize > 0) {
    throw new ShimError("unavailable", "read process output: the connection to the Docker Engine broke");
  }
}
