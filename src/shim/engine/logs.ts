/** What the engine has kept of a container's output. */
import { ShimError } from "../lib/errors.js";
import type { LogOptions, LogStream } from "../ports/engine.js";
import { readChunks } from "./http/answer.js";
import type { EngineClient } from "./http/client.js";
import { OutputFrames } from "./http/output-frames.js";

const cannotRead = /does not support reading/;

/** As the port says. */
export async function openLogs(
  client: EngineClient,
  id: string,
  { sinceSeconds, follow, tty, tail }: LogOptions,
  signal: AbortSignal,
): Promise<LogStream> {
  const action = `read the log of container "${id}"`;
  const response = await client
    .open(
      {
        ...{ action, method: "GET", path: ["containers", id, "logs"], concurrency: "unlimited" },
        query: {
          ...{ stdout: "1", stderr: "1", timestamps: "1", follow: follow ? "1" : "0" },
          ...(sinceSeconds === 0 ? {} : { since: String(sinceSeconds) }),
          ...(tail === undefined ? {} : { tail: String(tail) }),
        },
      },
      signal,
    )
    .catch((error: unknown) => {
      const refused = ShimError.from(error);
      if (!cannotRead.test(refused.message)) throw refused;
      throw new ShimError("unsupported", refused.message, refused.fields, { cause: refused });
    });
  const chunks = readChunks(response, action, signal);
  return {
    readOutput: async (take) => {
      const frames = new OutputFrames();
      for await (const chunk of chunks) {
        await (tty ? take("stdout", chunk, false) : frames.push(chunk, take));
      }
      if (!tty) frames.end();
    },
    close: () => {
      response.destroy();
    },
  };
}
