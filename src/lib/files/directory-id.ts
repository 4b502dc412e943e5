import { readFile, stat } from "node:fs/promises";

/**
 * Equal for two programs only if they see the same directory: kernel, file system, inode. Undefined when
 * there is none, and where the kernel has no such id. Never rejects.
 */
export async function directoryId(path: string): Promise<string | undefined> {
  try {
    const [bootId, { dev, ino }] = await Promise.all([
      readFile("/proc/sys/kernel/random/boot_id", "utf8"),
      stat(path, { bigint: true }),
    ]);
    return `${bootId.trim()}:${dev}:${ino}`;
  } catch {
    return undefined;
  }
}
