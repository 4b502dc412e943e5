/** Requests to the helper program and its answers, as in native/play-files.c. Pure. */
import { SizedFrames } from "../../lib/sized-frames.js";

export const operations = {
  look: 1,
  list: 2,
  read: 3,
  readLink: 4,
  makeDirectory: 5,
  write: 6,
  rename: 7,
  makeLink: 8,
  unlink: 9,
  removeDirectory: 10,
  removeTree: 11,
  changeMode: 12,
  changeOwner: 13,
  diskUsage: 14,
  giveToGroup: 15,
  mountMemory: 16,
  findSubPath: 17,
  bindSubPath: 18,
  unmount: 19,
  mounts: 20,
  space: 21,
} as const;

export type Operation = keyof typeof operations;

/** Of the data in one request or answer. */
export const dataLimit = 512 * 1024;
const headerBytes = 32;
const answerHeaderBytes = 16;

export interface HelperRequest {
  readonly texts: readonly [string, string?];
  readonly numbers?: readonly [number, number?, number?];
  readonly large?: bigint;
  readonly data?: Buffer;
}

/** Little endian, as both supported architectures. */
export function encodeRequest(id: number, operation: Operation, request: HelperRequest): Buffer {
  const { texts, numbers = [0], large = 0n, data = Buffer.alloc(0) } = request;
  const [first, second = ""] = texts;
  const rest = Buffer.concat([Buffer.from(`${first}\0${second}\0`), data]);
  const header = Buffer.alloc(headerBytes);
  header.writeUInt32LE(headerBytes + rest.length, 0);
  header.writeUInt32LE(id, 4);
  header.writeUInt32LE(operations[operation], 8);
  for (const index of [0, 1, 2]) header.writeUInt32LE(numbers[index] ?? 0, 12 + 4 * index);
  header.writeBigUInt64LE(large, 24);
  return Buffer.concat([header, rest]);
}

export interface HelperAnswer {
  readonly id: number;
  /** An error number of Linux; 0 for success. */
  readonly errno: number;
  readonly data: Buffer;
}

/** Cuts a stream of bytes into answers. */
export function helperAnswers(): SizedFrames<HelperAnswer> {
  return new SizedFrames(
    { headBytes: answerHeaderBytes, limitBytes: answerHeaderBytes + dataLimit },
    answerIn,
  );
}

function answerIn(bytes: Buffer): HelperAnswer {
  const data = bytes.subarray(answerHeaderBytes);
  return { id: bytes.readUInt32LE(4), errno: bytes.readUInt32LE(8), data };
}
