/** A directory that looks like /proc to the code under test. */
import { mkdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { ProcFiles } from "../../../src/shim/host/processes/proc-files.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";

export interface FakeProcess {
  readonly comm?: string;
  readonly parent?: number;
  readonly session?: number;
  readonly state?: string;
  readonly threads?: number;
  readonly startTime?: number;
  /** The text of its `cgroup` file. */
  readonly cgroup?: string;
  readonly cmdline?: readonly string[];
  /** Further files and what they say. */
  readonly files?: Readonly<Record<string, string>>;
  /** Unix sockets of the process: inode → path of a listening socket, or undefined for a connected socket. */
  readonly sockets?: Readonly<Record<number, string | undefined>>;
  /** Unix sockets of its network namespace that it does not hold. */
  readonly otherSockets?: Readonly<Record<number, string>>;
  readonly pidNamespace?: number;
  readonly mountNamespace?: number;
  readonly root?: string;
  readonly userNamespace?: number;
  /** The real user and the effective one; root unless given. */
  readonly users?: readonly [number, number];
}

export class FakeProc implements AsyncDisposable {
  readonly proc: ProcFiles;

  private constructor(
    /** Holds `proc` and whatever the test puts beside it. */
    readonly directory: string,
    private readonly remove: () => Promise<void>,
  ) {
    this.proc = new ProcFiles(join(directory, "proc"));
  }

  static async make(): Promise<FakeProc> {
    const temporary = await temporaryDirectory();
    const fake = new FakeProc(temporary.path, async () => temporary[Symbol.asyncDispose]());
    await fake.add("self", { comm: "node" });
    return fake;
  }

  /** Adds the process, or replaces it. */
  async add(pid: number | "self", process: FakeProcess): Promise<void> {
    await this.end(pid);
    const {
      comm = "sh",
      parent = 1,
      session = Number(pid),
      state = "S",
      threads = 1,
      startTime = 1000,
    } = process;
    const before = [state, parent, 1, session, ...Array.from({ length: 13 }, () => 0)];
    const stat = [...before, threads, 0, startTime, 0].join(" ");
    await this.#write(pid, "stat", `${pid} (${comm}) ${stat}\n`);
    await this.#write(pid, "comm", `${comm}\n`);
    await this.#write(pid, "cgroup", process.cgroup ?? "0::/\n");
    await this.#write(pid, "cmdline", (process.cmdline ?? [comm]).map((word) => `${word}\0`).join(""));
    const users = `Uid:\t${(process.users ?? [0, 0]).join("\t")}\t0\t0\n`;
    await this.#write(pid, "status", users + (process.files?.["status"] ?? ""));
    for (const [name, text] of Object.entries(process.files ?? {}))
      if (name !== "status") await this.#write(pid, name, text);
    await this.#addSockets(pid, process);
    await this.#link(pid, "ns/pid", `pid:[${process.pidNamespace ?? 4026531836}]`);
    await this.#link(pid, "ns/mnt", `mnt:[${process.mountNamespace ?? 4026531840}]`);
    await this.#link(pid, "ns/user", `user:[${process.userNamespace ?? 4026531837}]`);
    await this.#link(pid, "root", process.root ?? "/");
  }

  async end(pid: number | "self"): Promise<void> {
    await rm(this.proc.path(pid, ""), { recursive: true, force: true });
  }

  read(pid: number, name: string): Promise<string> {
    return readFile(this.proc.path(pid, name), "utf8");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.remove();
  }

  async #addSockets(pid: number | "self", { sockets = {}, otherSockets = {} }: FakeProcess): Promise<void> {
    const lines = ["Num       RefCount Protocol Flags    Type St Inode Path"];
    const line = (inode: string, path: string | undefined): string =>
      path === undefined
        ? `0000000000000000: 00000003 00000000 00000000 0001 03 ${inode}`
        : `0000000000000000: 00000002 00000000 00010000 0001 01 ${inode} ${path}`;
    for (const [inode, path] of Object.entries(otherSockets)) lines.push(line(inode, path));
    let descriptor = 3;
    for (const [inode, path] of Object.entries(sockets)) {
      lines.push(line(inode, path));
      await this.#link(pid, `fd/${descriptor++}`, `socket:[${inode}]`);
    }
    await this.#write(pid, "net/unix", `${lines.join("\n")}\n`);
  }

  async #write(pid: number | "self", name: string, text: string): Promise<void> {
    const path = this.proc.path(pid, name);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, text);
  }

  async #link(pid: number | "self", name: string, target: string): Promise<void> {
    const path = this.proc.path(pid, name);
    await mkdir(dirname(path), { recursive: true });
    await symlink(target, path);
  }
}
