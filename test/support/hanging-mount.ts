/**
 * A mounted file system whose server takes every request and answers none, as a volume whose server is gone.
 */
import { spawn } from "node:child_process";
import { constants, openSync, readFileSync, readSync, closeSync, writeSync } from "node:fs";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { until } from "./wait.js";

export interface HangingMount extends AsyncDisposable {
  readonly path: string;
  /** How many requests the server has taken since the mount was there. */
  readonly taken: number;
  /** Ends the file system: what hangs fails with ECONNABORTED. */
  abort(): void;
}

/** Why there can be none here, or false. */
export function reasonForNoHangingMount(): string | false {
  if (process.getuid?.() !== 0) return "needs root, to mount";
  try {
    closeSync(openSync("/dev/fuse", constants.O_RDWR));
    return false;
  } catch (error) {
    return `no FUSE here: ${String(error)}`;
  }
}

const initOpcode = 26;
const headerBytes = 40;
/**
 * Without this, the kernel would send only the first lookup in a directory and let the others wait for it.
 */
const parallelLookups = 1 << 18;

export async function mountHanging(): Promise<HangingMount> {
  const directory = await mkdtemp(join(tmpdir(), "hanging-mount-"));
  const path = join(directory, "volume");
  await mkdir(path);
  // Not blocking: a read that waits would take a thread of this process for ever.
  const device = openSync("/dev/fuse", constants.O_RDWR | constants.O_NONBLOCK);
  const buffer = Buffer.alloc(1024 * 1024);
  let taken = 0;
  let isOpen = true;
  const serve = (): void => {
    try {
      while (isOpen) {
        readSync(device, buffer);
        if (buffer.readUInt32LE(4) === initOpcode) writeSync(device, initAnswer(buffer));
        else taken += 1;
      }
    } catch {
      // Nothing to read now, or not mounted yet, or unmounted.
    }
  };
  const timer = setInterval(serve, 2);
  const abort = (): void => {
    if (!isOpen) return;
    isOpen = false;
    clearInterval(timer);
    closeSync(device); // The last one: the kernel aborts the connection.
  };
  const clean = async (): Promise<void> => {
    abort();
    if (isMounted(path)) await run("umount", ["--lazy", path]);
    await rm(directory, { recursive: true });
  };
  try {
    const options = "fd=3,rootmode=40000,user_id=0,group_id=0,allow_other";
    await run("mount", ["-i", "-t", "fuse", "-o", options, "hanging-mount", path], device);
    await until("the file system is mounted", () => isMounted(path));
  } catch (error) {
    await clean();
    throw error;
  }
  return {
    path,
    get taken() {
      return taken;
    },
    abort,
    [Symbol.asyncDispose]: clean,
  };
}

/** To a header of length, opcode and id: the answer that the version and the sizes are fine. */
function initAnswer(request: Buffer): Buffer {
  const answer = Buffer.alloc(16 + 64);
  answer.writeUInt32LE(answer.length, 0);
  request.copy(answer, 8, 8, 16);
  answer.writeUInt32LE(request.readUInt32LE(headerBytes), 16); // major
  answer.writeUInt32LE(Math.min(31, request.readUInt32LE(headerBytes + 4)), 20); // minor
  answer.writeUInt32LE(parallelLookups, 28); // flags
  answer.writeUInt32LE(4096, 36); // the largest write
  return answer;
}

function isMounted(path: string): boolean {
  return readFileSync("/proc/self/mountinfo", "utf8").includes(` ${path} `);
}

async function run(program: string, words: readonly string[], third?: number): Promise<void> {
  const stdio = ["ignore", "ignore", "pipe", ...(third === undefined ? [] : [third])] as const;
  const child = spawn(program, words, { stdio: [...stdio] });
  let text = "";
  child.stderr?.on("data", (chunk: Buffer) => (text += chunk.toString()));
  const code = await new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", resolve);
  });
  if (code !== 0) throw new Error(`${program} ${words.join(" ")}: ${text}`);
}
