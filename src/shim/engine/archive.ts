/** Files in containers, as tar streams. */
import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import { extract } from "tar-stream";
import { linkAbort } from "../lib/abort.js";
import { ShimError } from "../lib/errors.js";
import type { ArchiveStat } from "../ports/engine.js";
import { parseJson } from "./http/answer.js";
import { brokenAnswer } from "./http/errors.js";
import { asObject, numberOf, textOf } from "./http/json.js";

/** The directory bit of Go's os.FileMode, in which the engine writes modes. */
const goDirectoryBit = 2 ** 31;

/** The value of X-Docker-Container-Path-Stat. */
export function parseArchiveStat(
  header: string | readonly string[] | undefined,
  action: string,
): ArchiveStat {
  const text = Buffer.from(typeof header === "string" ? header : "", "base64").toString("utf8");
  const json = asObject(parseJson(text, action));
  return {
    name: textOf(json, "name"),
    size: numberOf(json, "size"),
    isDirectory: numberOf(json, "mode") >= goDirectoryBit,
    linkTarget: textOf(json, "linkTarget"),
  };
}

/**
 * The body of `response` as a stream that fails with ShimErrors when it breaks or `signal` aborts. Destroying it closes
 * the connection, also when nobody has begun to read.
 */
export function openArchive(response: IncomingMessage, action: string, signal: AbortSignal): Readable {
  let link: Disposable | undefined = undefined;
  const stream = new Readable({
    read: () => response.resume(),
    destroy: (error, callback) => {
      link?.[Symbol.dispose]();
      response.destroy();
      callback(error);
    },
  });
  // Whoever is not reading just now hears of the failure when it goes on: that must not count as unheard.
  stream.on("error", () => undefined);
  response.pause();
  response.on("data", (chunk: Buffer) => {
    if (!stream.push(chunk)) response.pause();
  });
  response.on("end", () => stream.push(null));
  response.on("error", (error) => stream.destroy(brokenAnswer(action, error)));
  response.on("close", () => {
    if (!response.readableEnded) stream.destroy(brokenAnswer(action));
  });
  link = linkAbort(signal, () => {
    stream.destroy(ShimError.from(signal.reason));
  });
  return stream;
}

/** The content of the regular file with which the archive `tar` begins; undefined when it begins with something else. */
export async function firstFile(tar: Buffer, action: string): Promise<Buffer | undefined> {
  const entries = extract();
  entries.end(tar);
  try {
    for await (const entry of entries) {
      if (entry.header.type !== "file") return undefined;
      const chunks: Buffer[] = [];
      for await (const chunk of entry) chunks.push(chunk as Buffer);
      return Buffer.concat(chunks);
    }
    return undefined;
  } catch (error) {
    throw new ShimError(
      "unknown",
      `${action}: the engine's answer is not a tar archive`,
      {},
      { cause: error },
    );
  } finally {
    entries.destroy();
  }
}
