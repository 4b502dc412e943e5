/** Files of /proc, /sys and cgroups: made when they are read, with a size of 0. */
import { open, type FileHandle } from "node:fs/promises";
import { ShimError } from "../errors.js";
import { readlinkSync } from "node:fs";
import { basename } from "node:path";

/** Most are shorter; so small a buffer is a slice of one that Node.js shares out. */
const firstBytes = 2 * 1024;
const largestBytes = 256 * 1024;
/** Limit of a file that is read whole. The processes of containers decide how long some of these files are. */
const wholeLimitBytes = 4 * 1024 * 1024;
/** A line of a mount table has up to four paths of 4 KiB, some bytes of which are four characters. */
const lineLimitBytes = 64 * 1024;

/**
 * The whole text. Node's own `readFile` takes 64 KiB for each file without a size, outside of the heap.
 * Errors are those of the system, and `exhausted` for a longer file.
 */
export async function readKernelFile(path: string, limitBytes = wholeLimitBytes): Promise<string> {
  const file = await open(path, "r");
  try {
    const parts: Buffer[] = [];
    let free = Buffer.allocUnsafe(firstBytes);
    let nextBytes = firstBytes;
    for (let length = 0; ;) {
      const { bytesRead } = await file.read(free, 0, free.length, null);
      if (bytesRead === 0) break;
      length += bytesRead;
      if (length > limitBytes) throw tooLong(path, limitBytes);
      parts.push(free.subarray(0, bytesRead));
      free = free.subarray(bytesRead);
      if (free.length > 0) continue;
      nextBytes = Math.min(nextBytes * 4, largestBytes);
      free = Buffer.allocUnsafe(nextBytes);
    }
    return (parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts)).toString("utf8");
  } finally {
    await file.close();
  }
}

/**
 * The lines of a file that may be long, some at a time; one of more than 64 KiB is left out. Errors are those
 * of the system, and `exhausted` after `limitBytes`.
 */
export async function* kernelFileLines(
  path: string,
  limitBytes = Infinity,
): AsyncGenerator<readonly string[], void, void> {
  const file = await open(path, "r");
  try {
    yield* linesOf(file, path, limitBytes);
  } finally {
    await file.close();
  }
}

async function* linesOf(
  file: FileHandle,
  path: string,
  limitBytes: number,
): AsyncGenerator<readonly string[], void, void> {
  const buffer = Buffer.allocUnsafe(2 * lineLimitBytes);
  // The begin of a line whose end has not come yet; of a line that is too long nothing is kept.
  let held = 0;
  let isTooLong = false;
  for (let length = 0; ;) {
    const { bytesRead } = await file.read(buffer, held, buffer.length - held, null);
    if (bytesRead === 0) break;
    length += bytesRead;
    if (length > limitBytes) throw tooLong(path, limitBytes);
    const filled = held + bytesRead;
    const end = buffer.lastIndexOf(0x0a, filled - 1) + 1;
    if (end > 0) {
      const lines = buffer.toString("utf8", 0, end - 1).split("\n");
      yield lines.filter((line, index) => line.length <= lineLimitBytes && !(isTooLong && index === 0));
      isTooLong = false;
      buffer.copyWithin(0, end, filled);
    }
    held = filled - end;
    if (held <= lineLimitBytes && !isTooLong) continue;
    isTooLong = true;
    held = 0;
  }
  if (held > 0 && !isTooLong) yield [buffer.toString("utf8", 0, held)];
}

function tooLong(path: string, limitBytes: number): ShimError {
  return new ShimError("exhausted", `read "${path}": longer than the limit of ${limitBytes} bytes`, { path });
}

/** `/dev/sda`; `8:0` where the kernel has no device of that number, as for file systems over several. */
export function blockDeviceName(major: number, minor: number, root = "/sys/dev/block"): string {
  const number = `${major}:${minor}`;
  try {
    return `/dev/${basename(readlinkSync(`${root}/${number}`))}`;
  } catch {
    return number;
  }
}

/** The two parts of a device number as stat has it. */
export function splitDeviceNumber(device: number): { readonly major: number; readonly minor: number } {
  const number = BigInt(device);
  return {
    major: Number(((number >> 8n) & 0xfffn) | ((number >> 32n) & 0xfffff000n)),
    minor: Number((number & 0xffn) | ((number >> 12n) & 0xffffff00n)),
  };
}
