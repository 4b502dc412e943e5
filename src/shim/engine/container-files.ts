/** The engine calls about files in containers. */
import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import { withDeadline } from "../lib/abort.js";
import { isKind, ShimError } from "../lib/errors.js";
import type { ArchiveStat, ContainerPath } from "../ports/engine.js";
import { readBody } from "./http/answer.js";
import { firstFile, openArchive, parseArchiveStat } from "./archive.js";
import { type EngineClient, type EngineRequest, refusalOf } from "./http/client.js";
import { withoutEntries } from "./tar-entries.js";

/** What a tar adds to one file: headers, also extended ones, and padding. */
const tarOverheadBytes = 64 * 1024;

export class ContainerFiles {
  constructor(
    private readonly client: EngineClient,
    private readonly shortTimeoutMs: number,
  ) {}

  async open(id: string, path: string, signal: AbortSignal): Promise<Readable | undefined> {
    const request = archiveRequest("GET", id, path);
    try {
      return openArchive(await this.client.open(request, signal), request.action, signal);
    } catch (error) {
      if (isMissingPath(error)) return undefined;
      throw error;
    }
  }

  async stat(id: string, path: string, signal: AbortSignal): Promise<ArchiveStat | undefined> {
    const request = archiveRequest("HEAD", id, path);
    const answer = await this.client.request(request, signal);
    if (answer.status === 404) return undefined;
    if (answer.status !== 200) throw refusalOf(answer);
    return parseArchiveStat(answer.headers["x-docker-container-path-stat"], request.action);
  }

  async read(id: string, path: string, limitBytes: number, signal: AbortSignal): Promise<Buffer | undefined> {
    const action = `read "${path}" of container "${id}"`;
    return withDeadline(signal, this.shortTimeoutMs, action, async (linked) => {
      const content = await this.#readEntry(id, path, limitBytes, linked);
      // The engine follows links up to the last part of a path, and says where that one ends within the container.
      if (content === undefined || Buffer.isBuffer(content)) return content;
      const target = await this.#readEntry(id, content.linkTarget, limitBytes, linked);
      return Buffer.isBuffer(target) ? target : undefined;
    });
  }

  /** The content, or the stat of a symbolic link. */
  async #readEntry(
    id: string,
    path: string,
    limitBytes: number,
    signal: AbortSignal,
  ): Promise<Buffer | ArchiveStat | undefined> {
    const request = archiveRequest("GET", id, path);
    const { action } = request;
    let response: IncomingMessage;
    try {
      response = await this.client.open(request, signal);
    } catch (error) {
      if (isMissingPath(error)) return undefined;
      throw error;
    }
    try {
      const stat = parseArchiveStat(response.headers["x-docker-container-path-stat"], action);
      if (stat.linkTarget !== "") return stat;
      if (stat.isDirectory) return undefined;
      const tooLarge = new ShimError("invalid", `${action}: larger than ${String(limitBytes)} bytes`);
      if (stat.size > limitBytes) throw tooLarge;
      const tar = await readBody(response, { action, limitBytes: stat.size + tarOverheadBytes }, signal);
      const content = await firstFile(tar, action);
      if (content !== undefined && content.length > limitBytes) throw tooLarge;
      return content;
    } finally {
      response.destroy();
    }
  }

  /** From one archive call into the other, at the pace of the slower one. */
  async copy(
    from: ContainerPath,
    to: ContainerPath,
    leaveOut: ReadonlySet<string>,
    signal: AbortSignal,
  ): Promise<void> {
    // With the dot the entries are named from the directory on.
    const source = await this.open(from.id, `${from.path.replace(/\/+$/, "")}/.`, signal);
    if (source === undefined) {
      throw new ShimError("notFound", `read "${from.path}" of container "${from.id}": no such directory`);
    }
    const broken = new AbortController();
    try {
      const action = `read "${from.path}" of container "${from.id}"`;
      const entries = withoutEntries(source as AsyncIterable<Buffer>, leaveOut, action);
      const tar = Readable.from(entries, { objectMode: false });
      // The engine would wait for the rest of a stream that broke off.
      tar.on("error", (error) => broken.abort(ShimError.from(error)));
      await this.put(to.id, to.path, tar, AbortSignal.any([signal, broken.signal]));
    } finally {
      source.destroy();
    }
  }

  async put(id: string, path: string, tar: Buffer | Readable, signal: AbortSignal): Promise<void> {
    const timeout = Buffer.isBuffer(tar) ? {} : { timeoutMs: Infinity };
    const headers = { "Content-Type": "application/x-tar" };
    try {
      const request: EngineRequest = { ...archiveRequest("PUT", id, path), headers, tar, ...timeout };
      const answer = await this.client.request(request, signal);
      if (answer.status !== 200) throw refusalOf(answer);
    } finally {
      if (!Buffer.isBuffer(tar)) tar.destroy();
    }
  }
}

function archiveRequest(method: "GET" | "HEAD" | "PUT", id: string, path: string): EngineRequest {
  const action = `${method === "PUT" ? "write files to" : "read"} "${path}" of container "${id}"`;
  return { action, method, path: ["containers", id, "archive"], query: { path }, concurrency: "unlimited" };
}

/**
 * A path that leads nowhere, in a container that is there. Where a file stands for a directory the engine answers 500
 * with the words of the system.
 */
function isMissingPath(error: unknown): boolean {
  if (isKind(error, "notFound")) return error.fields["missing"] !== "container";
  return isKind(error, "unknown") && error.message.endsWith("not a directory");
}
