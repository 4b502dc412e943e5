/** The protocol of the program that looks at paths of the node; the format is in native/host-paths.c. */
import { getSystemErrorMap } from "node:util";
import { SizedFrames } from "../../../lib/sized-frames.js";

/** `look`: does it exist; `make`: make a missing directory; `devices`: which device nodes are there. */
export type PathTask = "look" | "make" | "devices";

export interface PathEntry {
  readonly task: PathTask;
  /** Absolute, of less than `pathLimitBytes`. */
  readonly path: Buffer;
}

/** What a path may have with its NUL; the kernel takes no longer ones. */
export const pathLimitBytes = 4096;
/** A request with all its entries. */
export const requestLimitBytes = 64 * 1024;

const outcomes = [
  "ended",
  "present",
  "made",
  "missing",
  "lookFailed",
  "makeFailed",
  "danglingLink",
  "devices",
  "devicesEnd",
  "outside",
  "tooMany",
  "notStarted",
] as const;

export interface PathAnswer {
  readonly id: number;
  /** Index of the entry; 0 for `ended` and `notStarted`, which are of the whole request. */
  readonly entry: number;
  readonly outcome: (typeof outcomes)[number];
  /** A number of a system error, or 0. */
  readonly errno: number;
  /** How many bytes of the path the failure is about. */
  readonly length: number;
  /** Of `devices`: the paths of some of them. */
  readonly names: readonly string[];
}

const letters: Readonly<Record<PathTask, string>> = { look: "l", make: "m", devices: "d" };

/** Bytes that an entry takes of a request. */
export function entryBytes({ path }: PathEntry): number {
  return path.length + 2;
}

/** Bytes of a request without entries; such a one kills the process of the request of that id. */
export const requestHeadBytes = 8;

export function encodePathRequest(id: number, entries: readonly PathEntry[]): Buffer {
  const head = Buffer.alloc(requestHeadBytes);
  const nul = Buffer.alloc(1);
  const texts = entries.flatMap(({ task, path }) => [Buffer.from(letters[task]), path, nul]);
  const request = Buffer.concat([head, ...texts]);
  writeNumber(request, request.length, 0);
  writeNumber(request, id, 4);
  return request;
}

const answerHeadBytes = 24;
const answerLimitBytes = 4096;

/** Cuts a stream of bytes into answers. Throws when it is none. */
export class PathAnswerReader {
  readonly #frames = new SizedFrames({ headBytes: answerHeadBytes, limitBytes: answerLimitBytes });

  take(chunk: Buffer): readonly PathAnswer[] {
    return this.#frames.take(chunk).map(parseAnswer);
  }
}

function parseAnswer(bytes: Buffer): PathAnswer {
  const outcome = outcomes[readNumber(bytes, 12)];
  if (outcome === undefined) throw new Error("an answer of an unknown kind");
  return {
    id: readNumber(bytes, 4),
    entry: readNumber(bytes, 8),
    outcome,
    errno: readNumber(bytes, 16),
    length: readNumber(bytes, 20),
    names: bytes.toString("utf8", answerHeadBytes).split("\0").slice(0, -1),
  };
}

/** Both architectures that the program is for are little endian. */
function readNumber(bytes: Buffer, offset: number): number {
  return bytes.readUInt32LE(offset);
}

function writeNumber(bytes: Buffer, value: number, offset: number): void {
  bytes.writeUInt32LE(value, offset);
}

/** `no space left on device (ENOSPC)` */
export function systemErrorText(errno: number): string {
  const [name, text] = getSystemErrorMap().get(-errno) ?? [];
  return name === undefined ? `error ${errno}` : `${text ?? ""} (${name})`;
}
