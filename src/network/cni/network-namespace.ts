/** Paths that are, or were, network namespaces. */
import { statfs } from "node:fs/promises";

const nsfsMagic = 0x6e736673;

/** Whether a namespace lies at `path` now. The path of one that has died names nothing, or an ordinary file. */
export async function isNetworkNamespace(path: string): Promise<boolean> {
  const found = await statfs(path).catch(() => undefined);
  return found?.type === nsfsMagic;
}

/** Whether the path means a process, whose number another one may have by now. */
export function isProcessPath(path: string): boolean {
  return path.startsWith("/proc/");
}
