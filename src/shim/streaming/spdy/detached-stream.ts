/**
 * One direction of a client's stream, for a session to do with as it likes: what it destroys, by a failed pipeline say,
 * must not reset the client's stream, because clients print that as an error beside the real one.
 */
import { Readable, Writable } from "node:stream";
import { clientGone } from "../client-connection.js";

const ignore = (): void => undefined;

/** Reads `source`. When it is destroyed, the rest of the input is dropped. */
export function detachedReadable(source: Readable): Readable {
  const input = new Readable({
    read: () => void source.resume(),
    destroy(error, done) {
      source.resume();
      done(error);
    },
  });
  input.on("error", ignore);
  source.on("error", ignore);
  source.on("data", (chunk: Buffer) => {
    if (!input.destroyed && !input.push(chunk)) source.pause();
  });
  source.once("end", () => {
    if (!input.destroyed) input.push(null);
  });
  source.once("close", () => {
    if (!source.readableEnded) input.destroy(clientGone());
  });
  if (source.destroyed) input.destroy(clientGone());
  return input;
}

/** Writes to `target` and passes on its end. When it is destroyed before, `target` stays open. */
export function detachedWritable(target: Writable): Writable {
  const output = new Writable({
    write(chunk: Buffer, _encoding, done) {
      target.write(chunk, done);
    },
    final(done) {
      target.end(done);
    },
  });
  output.on("error", ignore);
  target.on("error", ignore);
  target.once("close", () => {
    if (!target.writableFinished) output.destroy(clientGone());
  });
  if (target.destroyed) output.destroy(clientGone());
  return output;
}
