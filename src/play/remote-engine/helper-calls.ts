/** Calls of the engine's file system, over the streams of the helper program. */
import { posix } from "node:path";
import type { Owner } from "../../domain/node-facts.js";
import { ShimError, messageOf } from "../../lib/errors.js";
import { hasCode, systemError, unlessMissing } from "../../lib/files/file-errors.js";
import type { ProcessStreams } from "../../shim/ports/engine.js";
import { type FileCalls, type FileStats, fileKind } from "../node/file-calls.js";
import { mountPointsOf } from "../node/mounts.js";
import {
  type HelperAnswer,
  type HelperRequest,
  type Operation,
  dataLimit,
  encodeRequest,
  helperAnswers,
} from "./helper-protocol.js";

const answerMs = 30_000;
/** Of what looks at a whole tree. */
const treeMs = 10 * 60_000;
const trees: ReadonlySet<Operation> = new Set(["removeTree", "diskUsage", "giveToGroup"]);
/** Where the engine's volumes are in the helper. */
export const helperVolumes = "/volumes";
const keepUser = 0xffff_ffff;

interface Pending {
  readonly take: (answer: HelperAnswer) => void;
  readonly fail: (error: ShimError) => void;
}

/** A connection to the program. Once it is lost, all calls reject with `unavailable` or `timeout`. */
export class HelperCalls implements FileCalls, Disposable {
  readonly #pending = new Map<number, Pending>();
  readonly #answers = helperAnswers();
  #lastId = 0;
  #said = "";
  #lost: ShimError | undefined;

  /** `volumesPath`: on the engine's host; `ownPath`: for the program; `root`: of containers, on that host. */
  constructor(
    private readonly streams: ProcessStreams,
    private readonly volumesPath: string,
    private readonly ownPath: string = helperVolumes,
    private readonly root: Owner = { uid: 0, gid: 0 },
  ) {
    streams.input.on("error", () => undefined); // The end of the output tells of it.
    streams
      .readOutput((stream, data) => {
        if (stream === "stdout") for (const answer of this.#answers.take(data)) this.#take(answer);
        else this.#said = (this.#said + data.toString()).slice(0, 1000);
        return undefined;
      })
      .then(
        () => this.#lose(`it ended${this.#said.trim() === "" ? "" : `: ${this.#said.trim()}`}`),
        (error: unknown) => this.#lose(messageOf(error)),
      );
  }

  get isLost(): boolean {
    return this.#lost !== undefined;
  }

  [Symbol.dispose](): void {
    this.#lose("it is closed");
  }

  async look(path: string): Promise<FileStats | undefined> {
    return this.#stats("look", { texts: [this.#inside(path)] }, path).catch(unlessMissing);
  }

  async list(path: string): Promise<readonly string[]> {
    return (await this.#atPath("list", path)).toString().split("\0").slice(0, -1);
  }

  async readFile(path: string): Promise<Buffer> {
    const chunks: Buffer[] = [];
    for (let offset = 0; ;) {
      const chunk = await this.readPart(path, offset, dataLimit);
      chunks.push(chunk);
      offset += chunk.length;
      if (chunk.length < dataLimit) return Buffer.concat(chunks);
    }
  }

  /** Up to `bytes`, or `dataLimit`, from there on. */
  async readPart(path: string, offset: number, bytes: number): Promise<Buffer> {
    return this.#atPath("read", path, { numbers: [Math.min(bytes, dataLimit)], large: BigInt(offset) });
  }

  async readLink(path: string): Promise<string> {
    return (await this.#atPath("readLink", path)).toString();
  }

  async makeDirectory(path: string, mode: number): Promise<boolean> {
    try {
      await this.#atPath("makeDirectory", path, { numbers: [mode] });
      await this.#giveToRoot(path);
      return true;
    } catch (error) {
      if (hasCode(error, "EEXIST")) return false;
      throw error;
    }
  }

  async createFile(path: string, content: Buffer, mode: number): Promise<void> {
    await this.#write(path, content, mode);
    await this.#giveToRoot(path);
  }

  async rewriteFile(path: string, content: Buffer): Promise<boolean> {
    return (
      (await this.#write(path, content, undefined)
        .then(() => true)
        .catch(unlessMissing)) ?? false
    );
  }

  async rename(from: string, to: string): Promise<void> {
    await this.#ask("rename", { texts: [this.#inside(from), this.#inside(to)] }, from);
  }

  async makeLink(target: string, path: string): Promise<void> {
    await this.#ask("makeLink", { texts: [target, this.#inside(path)] }, path);
  }

  async unlink(path: string): Promise<void> {
    await this.#atPath("unlink", path);
  }

  async removeDirectory(path: string): Promise<void> {
    await this.#atPath("removeDirectory", path);
  }

  async removeTree(path: string): Promise<void> {
    await this.#atPath("removeTree", path).catch(unlessMissing);
  }

  async changeMode(path: string, mode: number): Promise<void> {
    await this.#atPath("changeMode", path, { numbers: [mode] });
  }

  async changeGroup(path: string, group: number): Promise<void> {
    await this.#atPath("changeOwner", path, { numbers: [keepUser, this.root.gid + group] });
  }

  async giveToGroup(
    path: string,
    group: number,
    { trustRoot }: { readonly trustRoot: boolean },
  ): Promise<void> {
    await this.#atPath("giveToGroup", path, { numbers: [this.root.gid + group, trustRoot ? 1 : 0] });
  }

  async diskUsage(path: string): Promise<bigint> {
    return (await this.#atPath("diskUsage", path)).readBigUInt64LE(0);
  }

  /** Bytes of the file system on which a path is. */
  async space(path: string): Promise<bigint> {
    return (await this.#atPath("space", path)).readBigUInt64LE(0);
  }

  async mountPointsBelow(path: string): Promise<readonly string[]> {
    const text = (await this.#ask("mounts", { texts: [""] }, path)).toString();
    const inside = posix.join(this.ownPath, this.#inside(path));
    return mountPointsOf(text, inside).map((point) =>
      posix.join(this.volumesPath, point.slice(this.ownPath.length)),
    );
  }

  async isMountPoint(path: string): Promise<boolean> {
    return (await this.mountPointsBelow(path)).includes(path);
  }

  async mountMemory(path: string, sizeBytes: bigint): Promise<void> {
    await this.#ask("mountMemory", { texts: [this.#inside(path), `size=${sizeBytes}`] }, path);
    await this.#giveToRoot(path);
  }

  async findSubPath(volumePath: string, subPath: string): Promise<FileStats> {
    return this.#subPath(volumePath, subPath, () =>
      this.#stats("findSubPath", this.#subPathRequest(volumePath, subPath), subPath),
    );
  }

  async bindSubPath(volumePath: string, subPath: string, target: string): Promise<void> {
    const data = Buffer.from(this.#inside(target));
    await this.#subPath(volumePath, subPath, () =>
      this.#ask("bindSubPath", { ...this.#subPathRequest(volumePath, subPath), data }, subPath),
    );
  }

  async unmount(path: string): Promise<void> {
    await this.#atPath("unmount", path);
  }

  /** What play makes belongs to root as containers see it. */
  async #giveToRoot(path: string): Promise<void> {
    const { uid, gid } = this.root;
    if (uid !== 0 || gid !== 0) await this.#atPath("changeOwner", path, { numbers: [uid, gid] });
  }

  /** With the owner of what is missing. */
  #subPathRequest(volumePath: string, subPath: string): HelperRequest {
    return { texts: [this.#inside(volumePath), subPath], numbers: [this.root.uid, this.root.gid] };
  }

  async #subPath<T>(volumePath: string, subPath: string, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (error instanceof ShimError) throw error;
      const reason = hasCode(error, "EXDEV") ? "a link leads out of the volume" : messageOf(error);
      const message = `mount subPath "${subPath}" of "${volumePath}": ${reason}`;
      throw new ShimError("invalid", message, {}, { cause: error });
    }
  }

  /** In pieces; the last one ends the file. With a mode the file is new. */
  async #write(path: string, content: Buffer, mode: number | undefined): Promise<void> {
    for (let offset = 0; ;) {
      const data = content.subarray(offset, offset + dataLimit);
      const isNew = mode !== undefined && offset === 0;
      const isLast = offset + data.length === content.length;
      await this.#atPath("write", path, {
        numbers: [isNew ? 1 : 0, mode ?? 0, isLast ? 1 : 0],
        ...{ large: BigInt(offset), data },
      });
      if (isLast) return;
      offset += data.length;
    }
  }

  async #stats(operation: Operation, request: HelperRequest, path: string): Promise<FileStats> {
    const data = await this.#ask(operation, request, path);
    const field = (index: number): bigint => data.readBigUInt64LE(8 * index);
    const mode = Number(field(0));
    return {
      ...{ kind: fileKind(mode), mode: mode & 0o7777, size: Number(field(1)) },
      identity: `${field(2)}:${field(3)}`,
    };
  }

  #atPath(operation: Operation, path: string, more: Omit<HelperRequest, "texts"> = {}): Promise<Buffer> {
    return this.#ask(operation, { texts: [this.#inside(path)], ...more }, path);
  }

  /** The path as the helper has it. */
  #inside(path: string): string {
    const start = `${this.volumesPath}/`;
    if (path.startsWith(start) && !path.includes("\0")) return path.slice(start.length);
    throw new ShimError("internal", `use "${path}" on the engine's host: it is no path of a volume`);
  }

  #ask(operation: Operation, request: HelperRequest, path: string): Promise<Buffer> {
    if (this.#lost !== undefined) return Promise.reject(this.#lost);
    const id = (this.#lastId = (this.#lastId % 0x7fff_ffff) + 1);
    return new Promise((resolve, reject) => {
      const limitMs = trees.has(operation) ? treeMs : answerMs;
      const timer = setTimeout(() => {
        reject(new ShimError("timeout", `${operation} "${path}" on the engine's host: no answer in time`));
        this.#lose("it does not answer");
      }, limitMs);
      this.#pending.set(id, {
        take: ({ errno, data }) => {
          clearTimeout(timer);
          if (errno === 0) resolve(data);
          else reject(systemError(errno, operation, path));
        },
        fail: (error) => {
          clearTimeout(timer);
          reject(error);
        },
      });
      this.streams.input.write(encodeRequest(id, operation, request));
    });
  }

  #take(answer: HelperAnswer): void {
    const pending = this.#pending.get(answer.id);
    this.#pending.delete(answer.id);
    pending?.take(answer);
  }

  #lose(why: string): void {
    if (this.#lost !== undefined) return;
    this.#lost = new ShimError("unavailable", `the program for files on the engine's host was lost: ${why}`);
    for (const { fail } of this.#pending.values()) fail(this.#lost);
    this.#pending.clear();
    this.streams.close();
  }
}
