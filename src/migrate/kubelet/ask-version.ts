/** What the kubelet's program answers to `--version`. */
import { execFile } from "node:child_process";
import { open } from "node:fs/promises";

const timeoutMs = 10_000;
const answerLimitBytes = 64 * 1024;

/** Undefined for a program that is missing, fails, or is a script, which may start a kubelet. */
export async function askVersion(program: string): Promise<string | undefined> {
  if (!(await isBinary(program))) return undefined;
  return new Promise((resolve) => {
    const limits = {
      timeout: timeoutMs,
      killSignal: "SIGKILL" as const,
      maxBuffer: answerLimitBytes,
      env: { PATH: "/usr/bin:/bin" },
    };
    execFile(program, ["--version"], limits, (error, stdout) => resolve(error === null ? stdout : undefined));
  });
}

/** Whether the file begins as programs of Linux do (ELF). */
async function isBinary(path: string): Promise<boolean> {
  try {
    await using file = await open(path);
    const { buffer } = await file.read(Buffer.alloc(4), 0, 4, 0);
    return buffer.toString("latin1") === "\u007fELF";
  } catch {
    return false;
  }
}
