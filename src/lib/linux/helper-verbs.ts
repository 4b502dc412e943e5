/**
 * Verbs of the helper (native/helper.c), each as a program of its own: for commands, which have no helper process. No program
 * of the host is needed for them.
 */
import { spawn } from "node:child_process";
import { join } from "node:path";
import { ShimError } from "../errors.js";
import { systemError } from "../files/file-errors.js";
import { ownFiles } from "../own-files.js";

/** A file system in memory. The kernel gives back its memory when it is unmounted. */
export async function mountMemory(path: string, options: string): Promise<void> {
  await runVerb("mount-memory", path, { more: [options] });
}

/** Mounts what `descriptor` has open at `target`, so that no process can replace it. */
export async function mountOpen(descriptor: number, target: string): Promise<void> {
  await runVerb("mount-open", target, { descriptor });
}

/** The uppermost of what is mounted there. */
export async function unmount(point: string): Promise<void> {
  await runVerb("unmount", point);
}

/** Bytes on disk, without other file systems below; of a tree that takes longer than a minute, those that were counted. */
export async function diskUsage(directory: string): Promise<bigint> {
  const { more, timeoutMs } = { more: ["60000"], timeoutMs: 90_000 };
  return BigInt(/^\d+/.exec(await runVerb("disk-usage", directory, { more, timeoutMs }))?.[0] ?? "0");
}

/** As the server's by default; the executable writes the helper to it. */
const directory = "/var/lib/dockershim/programs";
const usualTimeoutMs = 30_000;
const outputLimit = 1024;

interface VerbOptions {
  readonly more?: readonly string[];
  /** Becomes number 3 of the process. */
  readonly descriptor?: number;
  readonly timeoutMs?: number;
}

/** Answers the output. Rejects with the `code` of the system. */
async function runVerb(verb: string, path: string, options: VerbOptions = {}): Promise<string> {
  const { more = [], descriptor, timeoutMs = usualTimeoutMs } = options;
  const architecture = process.arch === "arm64" ? "arm64" : "amd64";
  // Another version of this program, which runs at the same time, may have removed it since.
  const program = ownFiles().program(join("native", "bin", `helper-${architecture}`), directory);
  const child = spawn(program, [verb, path, ...more], {
    stdio: ["ignore", "pipe", "pipe", ...(descriptor === undefined ? [] : [descriptor])],
    ...{ timeout: timeoutMs, killSignal: "SIGKILL", env: {} },
  });
  const output = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"] as const)
    child[name]?.setEncoding("utf8").on("data", (text: string) => {
      output[name] = (output[name] + text).slice(0, outputLimit);
    });
  return new Promise((resolve, reject) => {
    child.on("error", (cause) => {
      reject(new ShimError("unknown", `run "${program}": ${cause.message}`, {}, { cause }));
    });
    child.on("close", (code, signal) => {
      if (code === 0) {
        resolve(output.stdout);
        return;
      }
      const [, errno] = /^error (\d+)$/.exec(output.stderr) ?? [];
      if (errno !== undefined) {
        reject(systemError(Number(errno), verb, path));
        return;
      }
      const status = code === null ? `ended by ${String(signal)}` : `exit status ${code}`;
      reject(new ShimError("unknown", `${verb} "${path}": ${status}`));
    });
  });
}
