/** Mounts as `/proc/<pid>/mountinfo` has them. */
import type { ProcFiles } from "./processes/proc-files.js";

export interface Mount {
  /** What of the file system is mounted there. */
  readonly root: string;
  readonly mountPoint: string;
  readonly type: string;
  readonly superOptions: string;
}

/**
 * The mounts of a process's mount namespace, in the order of the kernel; none of a process that is gone. Only for this
 * program and for processes of the node: a container decides itself what its own table says.
 */
export async function* readMounts(proc: ProcFiles, pid: number | "self"): AsyncGenerator<Mount, void, void> {
  for await (const lines of proc.lines(pid, "mountinfo")) {
    for (const line of lines) {
      const mount = parseMount(line);
      if (mount !== undefined) yield mount;
    }
  }
}

/** Lines are `id parent device root mountPoint options … - type source superOptions`. */
export function parseMount(line: string): Mount | undefined {
  const [left = "", right] = line.split(" - ");
  const [, , , root = "", mountPoint = ""] = left.split(" ");
  const [type = "", , superOptions = ""] = right?.split(" ") ?? [];
  if (right === undefined) return undefined;
  return {
    root: unescape(root),
    mountPoint: unescape(mountPoint),
    type,
    superOptions: unescape(superOptions),
  };
}

/** mountinfo writes blanks, tabs, line feeds and backslashes as three octal digits. */
function unescape(text: string): string {
  if (!text.includes("\\")) return text;
  return text.replace(/\\([0-7]{3})/g, (_, digits: string) =>
    String.fromCharCode(Number.parseInt(digits, 8)),
  );
}
