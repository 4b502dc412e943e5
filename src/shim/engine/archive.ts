/** The calls about files in containers: tar archives of paths. */
import { Readable } from "node:stream";
import { extract } from "tar-stream";
import { withDeadline } from "../../lib/abort.js";
import { isKind, ShimError } from "../../lib/errors.js";
import type { ArchiveCalls, ArchiveStat } from "../ports/engine.js";
import { openBody, readBody } from "./http/answer.js";
import { type EngineClient, type EngineRequest, refusalOf } from "./http/client.js";
import type { HttpAnswer } from "./http/connection.js";
import { asObject, numberOf, textOf } from "../../lib/json/json-readers.js";
import { parseJson } from "./http/json.js";
import { changedEntries } from "./tar-entries.js";

/** What a tar adds to one file: headers, also extended ones, and padding. */
const tarOverheadBytes = 64 * 1024;
const statHeader = "x-docker-container-path-stat";

export function archiveCalls(client: EngineClient): ArchiveCalls {
  /** The answer with the tar of a path; undefined when the path does not exist. */
  const open = async (request: EngineRequest, signal: AbortSignal): Promise<HttpAnswer | undefined> => {
    try {
      return await client.open(request, signal);
    } catch (error) {
      if (isMissingPath(error)) return undefined;
      throw error;
    }
  };

  const getArchive: ArchiveCalls["getArchive"] = async (id, path, signal) => {
    const request = archiveRequest("GET", id, path);
    const response = await open(request, signal);
    return response === undefined ? undefined : openBody(response, request.action, signal);
  };

  /** The content, or the stat of a symbolic link. */
  const readEntry = async (
    id: string,
    path: string,
    limitBytes: number,
    signal: AbortSignal,
  ): Promise<Buffer | ArchiveStat | undefined> => {
    const request = archiveRequest("GET", id, path);
    const { action } = request;
    const response = await open(request, signal);
    if (response === undefined) return undefined;
    try {
      const stat = parseArchiveStat(response.headers[statHeader], action);
      if (stat.linkTarget !== "") return stat;
      if (stat.isDirectory) return undefined;
      const tooLarge = new ShimError("invalid", `${action}: larger than ${limitBytes} bytes`);
      if (stat.size > limitBytes) throw tooLarge;
      const tar = await readBody(response, { action, limitBytes: stat.size + tarOverheadBytes }, signal);
      const content = await firstFile(tar, action);
      if (content !== undefined && content.length > limitBytes) throw tooLarge;
      return content;
    } finally {
      response.destroy();
    }
  };

  /** A buffer has the deadline of short calls; a stream has none, and is destroyed at the end. */
  const putArchive: ArchiveCalls["putArchive"] = async (id, path, tar, signal) => {
    const timeout = Buffer.isBuffer(tar) ? {} : { timeoutMs: Infinity };
    const headers = { "Content-Type": "application/x-tar" };
    try {
      const request: EngineRequest = { ...archiveRequest("PUT", id, path), headers, tar, ...timeout };
      const answer = await client.request(request, signal);
      if (answer.status !== 200) throw refusalOf(answer);
    } finally {
      if (!Buffer.isBuffer(tar)) tar.destroy();
    }
  };

  return {
    getArchive,
    putArchive,

    /** The engine's answer does not tell a missing path from a missing container: both are undefined. */
    async statArchive(id, path, signal) {
      const request = archiveRequest("HEAD", id, path);
      const answer = await client.request(request, signal);
      if (answer.status === 404) return undefined;
      if (answer.status !== 200) throw refusalOf(answer);
      return parseArchiveStat(answer.headers[statHeader], request.action);
    },

    async readContainerFile(id, path, limitBytes, signal) {
      const action = `read "${path}" of container "${id}"`;
      return withDeadline(signal, client.shortTimeoutMs, action, async (linked) => {
        const content = await readEntry(id, path, limitBytes, linked);
        // The engine follows links up to the last part of a path, and says where that one ends within the
        // container.
        if (content === undefined || Buffer.isBuffer(content)) return content;
        const target = await readEntry(id, content.linkTarget, limitBytes, linked);
        return Buffer.isBuffer(target) ? target : undefined;
      });
    },

    /** From one archive call into the other, at the pace of the slower one. */
    async copyDirectory(from, to, { leaveOut, root }, signal) {
      const action = `read "${from.path}" of container "${from.id}"`;
      // With the dot the entries are named from the directory on.
      const source = await getArchive(from.id, `${from.path.replace(/\/+$/, "")}/.`, signal);
      if (source === undefined) throw new ShimError("notFound", `${action}: no such directory`);
      const broken = new AbortController();
      try {
        const entries = changedEntries(source as AsyncIterable<Buffer>, { leaveOut, root }, action);
        const tar = Readable.from(entries, { objectMode: false });
        // The engine would wait for the rest of a stream that broke off.
        tar.on("error", (error) => broken.abort(ShimError.from(error)));
        await putArchive(to.id, to.path, tar, AbortSignal.any([signal, broken.signal]));
      } finally {
        source.destroy();
      }
    },
  };
}

function archiveRequest(method: "GET" | "HEAD" | "PUT", id: string, path: string): EngineRequest {
  const action = `${method === "PUT" ? "write files to" : "read"} "${path}" of container "${id}"`;
  return { action, method, path: ["containers", id, "archive"], query: { path } };
}

/**
 * A path that leads nowhere, in a container that is there. Where a file stands for a directory the engine
 * answers 500 with the words of the system.
 */
function isMissingPath(error: unknown): boolean {
  if (isKind(error, "notFound")) return error.fields["missing"] !== "container";
  return isKind(error, "unknown") && error.message.endsWith("not a directory");
}

/** The directory bit of Go's os.FileMode, in which the engine writes modes. */
const goDirectoryBit = 2 ** 31;

/** The value of X-Docker-Container-Path-Stat. */
function parseArchiveStat(header: string | readonly string[] | undefined, action: string): ArchiveStat {
  const text = Buffer.from(typeof header === "string" ? header : "", "base64").toString("utf8");
  const json = asObject(parseJson(text, action));
  return {
    name: textOf(json, "name"),
    size: numberOf(json, "size"),
    isDirectory: numberOf(json, "mode") >= goDirectoryBit,
    linkTarget: textOf(json, "linkTarget"),
  };
}

/** The content of the first entry of `tar`; undefined unless that is a regular file. */
async function firstFile(tar: Buffer, action: string): Promise<Buffer | undefined> {
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
