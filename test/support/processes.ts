/** What /proc shows of processes: of a shim, of this one, and of containers. */
import { readdir, readFile, readlink } from "node:fs/promises";
import { pidOfContainer } from "./docker.js";
import { onEngineHost } from "./engine-host.js";

export interface ContainerProcess {
  readonly pid: number;
  readonly command: string;
}

/** Processes of a container, seen from the engine's host, without those that have ended. */
export async function processesIn(containerId: string): Promise<readonly ContainerProcess[]> {
  const found: ContainerProcess[] = [];
  const proc = onEngineHost("/proc");
  for (const name of await readdir(proc)) {
    if (!/^\d+$/.test(name)) continue;
    const read = (file: string): Promise<string> =>
      readFile(`${proc}/${name}/${file}`, "utf8").catch(() => "");
    if (!(await read("cgroup")).includes(containerId)) continue;
    const command = (await read("cmdline")).replaceAll("\0", " ").trim();
    if (command !== "") found.push({ pid: Number(name), command });
  }
  return found;
}

/** Targets of the open files of a process, as `socket:[…]` or a path. */
export async function openFiles(pid: number): Promise<readonly string[]> {
  const names = await readdir(`/proc/${pid}/fd`);
  // Without those that were closed in the meantime.
  const targets = await Promise.all(names.map((name) => readlink(`/proc/${pid}/fd/${name}`).catch(() => "")));
  return targets.filter((target) => target !== "");
}

export async function openSockets(pid: number): Promise<number> {
  return (await openFiles(pid)).filter((target) => target.startsWith("socket:")).length;
}

export async function residentBytes(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) * 1024;
}

/** The process of containerd's shim that runs a container. */
export async function containerdShimOf(containerId: string): Promise<number> {
  const pid = await pidOfContainer(containerId);
  const proc = onEngineHost("/proc");
  const parent = /^PPid:\s+(\d+)$/m.exec(await readFile(`${proc}/${pid}/status`, "utf8"))?.[1] ?? "";
  const name = (await readFile(`${proc}/${parent}/comm`, "utf8")).trim();
  if (name !== "containerd-shim") throw new Error(`the parent of container ${containerId} is "${name}"`);
  return Number(parent);
}
