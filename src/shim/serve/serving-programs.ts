/** Which program uses a checkpoint directory at this moment. */
import { readdir, readFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { criDockerdCheckpoints, isStateDirectoryClaimed } from "../state/state-directory.js";

/** Where this program and the kubelet's dockershim serve, as the kernel lists their sockets. */
const dockershimSockets = ["/run/dockershim.sock", "/var/run/dockershim.sock"];
const dockershimCheckpoints = "/var/lib/dockershim/sandbox";
const rootFlag = "--cri-dockerd-root-directory";
/** `__SO_ACCEPTCON`: the socket listens. */
const listening = "00010000";

/** The program, as a message names it; undefined when there is none. */
export async function servingProgram(directory: string): Promise<string | undefined> {
  const root = dirname(resolve(directory));
  if (await isStateDirectoryClaimed(root)) return "dockershim";
  for (const { pid, root: other } of await criDockerds()) {
    if (resolve(other) === root) return `cri-dockerd (process ${pid})`;
  }
  if (resolve(directory) === dockershimCheckpoints && (await listensAt(dockershimSockets))) {
    return `the server of ${dockershimSockets.join(" or ")}`;
  }
  return undefined;
}

/** The processes, and the directories of their checkpoints. */
export async function criDockerds(): Promise<readonly { readonly pid: string; readonly root: string }[]> {
  const found: { pid: string; root: string }[] = [];
  for (const pid of (await readdir("/proc")).filter((name) => /^\d+$/.test(name))) {
    // A process that has ended meanwhile has no files.
    const name = await readFile(`/proc/${pid}/comm`, "utf8").catch(() => "");
    if (name.trim() !== "cri-dockerd") continue;
    const words = (await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "")).split("\0");
    found.push({ pid, root: rootOf(words) });
  }
  return found;
}

function rootOf(words: readonly string[]): string {
  const index = words.findLastIndex((word) => word === rootFlag || word.startsWith(`${rootFlag}=`));
  const word = words[index];
  const value = word === rootFlag ? words[index + 1] : word?.slice(rootFlag.length + 1);
  return value ?? dirname(criDockerdCheckpoints);
}

/** Whether a process listens there. Nothing connects: that would start a unit that systemd listens for. */
async function listensAt(paths: readonly string[]): Promise<boolean> {
  const lines = (await readFile("/proc/net/unix", "utf8").catch(() => "")).split("\n");
  return lines.some((line) => {
    const [, , , flags, , , , path = ""] = line.split(/\s+/);
    return flags === listening && paths.includes(path);
  });
}
