/** Mounts that play makes on the engine's host: by mount(8) and umount(8) of util-linux. */
import { spawn } from "node:child_process";
import { readFile, realpath } from "node:fs/promises";
import { sep } from "node:path";
import { ShimError } from "../../lib/errors.js";
import { hasCode } from "../../lib/files/file-errors.js";

/** A file system in memory. The kernel gives back its memory when it is unmounted. */
export async function mountMemory(path: string, sizeBytes: bigint): Promise<void> {
  await run("mount", ["-t", "tmpfs", "-o", `size=${sizeBytes}`, "tmpfs", path]);
}

/** Mounts what `descriptor` has open at `target`: /proc/self/fd/3, so that no process can replace it. */
export async function bindDescriptor(descriptor: number, target: string): Promise<void> {
  await run("mount", ["--no-canonicalize", "--bind", "/proc/self/fd/3", target], descriptor);
}

/** The uppermost of what is mounted there. */
export async function unmount(point: string): Promise<void> {
  await run("umount", ["--no-canonicalize", point]);
}

export async function isMountPoint(path: string): Promise<boolean> {
  return (await mountPointsBelow(path)).includes(await realpath(path));
}

/** In the order in which they were made; none for a path that is missing. */
export async function mountPointsBelow(path: string): Promise<readonly string[]> {
  let real: string;
  try {
    real = await realpath(path);
  } catch (error) {
    if (hasCode(error, "ENOENT")) return [];
    throw error;
  }
  return mountPointsOf(await readFile("/proc/self/mountinfo", "utf8"), real);
}

/** Those at `path` and below it, of the text of mountinfo. */
export function mountPointsOf(mountinfo: string, path: string): readonly string[] {
  return mountinfo
    .split("\n")
    .map((line) => unescapeMountPath(line.split(" ")[4] ?? ""))
    .filter((point) => point === path || point.startsWith(path + sep));
}

/** The kernel writes blanks and backslashes as three octal digits. */
function unescapeMountPath(path: string): string {
  return path.replace(/\\([0-7]{3})/g, (_, digits: string) =>
    String.fromCharCode(Number.parseInt(digits, 8)),
  );
}

const timeoutMs = 30_000;
const outputLimit = 64 * 1024;

/** Answers the output. `descriptor` becomes number 3 of the program, `input` its standard input. */
export async function run(
  program: string,
  words: readonly string[],
  descriptor?: number,
  input = "",
): Promise<string> {
  const stdio = ["pipe", "pipe", "pipe", ...(descriptor === undefined ? [] : [descriptor])] as const;
  const child = spawn(program, words, {
    stdio: [...stdio],
    timeout: timeoutMs,
    killSignal: "SIGKILL",
    env: { ...process.env, LC_ALL: "C" },
  });
  const output = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"] as const) {
    child[name]?.setEncoding("utf8");
    child[name]?.on("data", (text: string) => {
      output[name] = (output[name] + text).slice(0, outputLimit);
    });
  }
  child.stdin?.on("error", () => undefined); // A program that ends early says why itself.
  child.stdin?.end(input);
  return new Promise((resolve, reject) => {
    child.on("error", (cause) => {
      const reason = hasCode(cause, "ENOENT") ? "not installed" : cause.message;
      reject(new ShimError("unknown", `run ${program}: ${reason}`, {}, { cause }));
    });
    child.on("close", (code, signal) => {
      if (code === 0) {
        resolve(output.stdout);
        return;
      }
      const status = code === null ? `ended by ${String(signal)}` : `exit status ${code}`;
      reject(new ShimError("unknown", `run ${program}: ${output.stderr.trim() || status}`));
    });
  });
}
