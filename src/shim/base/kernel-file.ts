/** Files of /proc, /sys and cgroups: the kernel makes their text when they are read, and says that their size is 0. */
import { open } from "node:fs/promises";

/** Most are shorter; so small a buffer is a slice of one that Node.js shares out. */
const firstBytes = 2 * 1024;
const largestBytes = 256 * 1024;

/**
 * The whole text. Node's own `readFile` takes 64 KiB for each file without a size, outside of the heap, where the garbage
 * of a look at some hundred processes stays for long. Errors are those of the system.
 */
export async function readKernelFile(path: string): Promise<string> {
  const file = await open(path, "r");
  try {
    const parts: Buffer[] = [];
    let free = Buffer.allocUnsafe(firstBytes);
    let nextBytes = firstBytes;
    for (;;) {
      const { bytesRead } = await file.read(free, 0, free.length, null);
      if (bytesRead === 0) break;
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
