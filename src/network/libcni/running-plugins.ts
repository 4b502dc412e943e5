/**
 * Records of running plugins that change something. Those of a killed program go on, and an ADD could end
 * after its DEL, so the next process kills them. What a plugin has left running after its end lives on.
 */
import { closeSync, fstatSync, mkdirSync, openSync, readdirSync, writeSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { sleep } from "../../lib/abort.js";
import { removeFileSync } from "../../lib/files/atomic-file.js";
import { messageOf, ShimError } from "../../lib/errors.js";
import { fileError, hasCode } from "../../lib/files/file-errors.js";
import { readKernelFile } from "../../lib/linux/kernel-file.js";
import type { Logger } from "../../lib/log.js";
import { bootId } from "../../lib/linux/network-namespaces.js";
import { isAlive, killGroup, markOf, type ProcessMark, statOf } from "../../lib/linux/process-mark.js";
import type { ProcessStat } from "../../lib/linux/process-stat.js";
import { readRegularFileSync } from "../../lib/files/state-files.js";
import { isObject, parseJson, stringAt, type JsonObject } from "../../lib/json/exact-json.js";

export interface RunningPlugin {
  readonly containerId: string;
  readonly type: string;
  readonly command: string;
}

/** `killed` also by other programs. */
export type PluginEnd = "byItself" | "killed";

/** To be called when the plugin has ended, or is no longer waited for. */
export type ForgetPlugin = (end: PluginEnd) => void;

/**
 * Holds one record at a time; blanks in between. It stays open and keeps its size: a record costs two writes, and the
 * file system frees nothing.
 */
interface RecordFile {
  readonly path: string;
  readonly descriptor: number;
  size: number;
}

interface RunRecord {
  readonly path: string;
  readonly containerId: string;
  readonly type: string;
  readonly command: string;
  readonly bootId: string;
  /** The leader of a process group of its own. */
  readonly plugin: ProcessMark;
  /** The program that started it. */
  readonly owner: ProcessMark;
}

const version = 1;
const fileMode = 0o600;
const directoryMode = 0o700;
const largestFileBytes = 4096;
const pollMs = 10;

export class RunningPlugins {
  /** Paths of the records of runs that this object waits for. */
  readonly #active = new Set<string>();
  readonly #free: RecordFile[] = [];
  #files = 0;
  #self: ProcessMark | undefined;

  /** Files in `directory`, made when needed. They need not survive a reboot: no plugin does. `write` for tests. */
  constructor(
    private readonly directory: string,
    private readonly log: Pick<Logger, "info" | "warn">,
    private readonly write: typeof writeSync = writeSync,
  ) {}

  /**
   * Before the process gets its input; the result removes the record. A failed write is only logged, and leaves
   * no file.
   */
  note({ containerId, type, command }: RunningPlugin, plugin: ProcessMark | undefined): ForgetPlugin {
    let file: RecordFile | undefined;
    const owner = (this.#self ??= markOf(process.pid));
    if (plugin === undefined || owner === undefined) return () => undefined;
    try {
      file = this.#freeFile(owner);
      this.#active.add(file.path);
      const record = { version, containerId, type, command, bootId: bootId(), plugin, owner };
      this.#overwrite(file, JSON.stringify(record));
    } catch (error) {
      this.log.warn({ path: this.directory, err: messageOf(error) }, "cannot record a running CNI plugin");
      if (file !== undefined) this.#discard(file);
      return () => undefined;
    }
    const noted = file;
    return (end) => {
      this.#active.delete(noted.path);
      // The record of a killed group that does not die stays: the next DEL waits for it. What a plugin leaves
      // running after its own end is intended, such as the DHCP client of a pod.
      if (end === "byItself" || !groupLives(plugin.pid)) this.#empty(noted);
      else closeSync(noted.descriptor);
    };
  }

  #freeFile(owner: ProcessMark): RecordFile {
    for (let file = this.#free.pop(); file !== undefined; file = this.#free.pop()) {
      if (fstatSync(file.descriptor).nlink > 0) return file;
      // Another program has removed it.
      closeSync(file.descriptor);
    }
    mkdirSync(this.directory, { recursive: true, mode: directoryMode });
    for (;;) {
      this.#files += 1;
      const path = join(this.directory, `${owner.pid}-${owner.startTime}-${this.#files}`);
      try {
        return { path, descriptor: openSync(path, "wx", fileMode), size: 0 };
      } catch (error) {
        if (!hasCode(error, "EEXIST")) throw error;
      }
    }
  }

  #empty(file: RecordFile): void {
    try {
      this.#overwrite(file, "");
      this.#free.push(file);
    } catch (error) {
      this.log.warn({ path: file.path, err: messageOf(error) }, "cannot empty the record of a CNI plugin");
      this.#discard(file);
    }
  }

  #discard(file: RecordFile): void {
    this.#active.delete(file.path);
    closeSync(file.descriptor);
    try {
      removeFileSync(file.path);
    } catch {
      // What made the write fail often makes this fail too. Such a file is removed when this process has ended.
    }
  }

  /** Blanks behind a record belong to no other one. A full disk writes a part, and fails at the next part. */
  #overwrite(file: RecordFile, record: string): void {
    const size = Math.max(Buffer.byteLength(record), file.size);
    const bytes = Buffer.alloc(size, " ");
    bytes.write(record);
    for (let at = 0; at < size;) at += this.write(file.descriptor, bytes, at, size - at, at);
    file.size = size;
  }

  /**
   * Kills plugins that nothing waits for any more, of the container or of all, and waits for their end.
   * Throws the reason of `signal`, with the plugin that still runs.
   */
  async killOrphaned(signal: AbortSignal, containerId?: string): Promise<void> {
    for (const record of await this.#records()) {
      if (containerId !== undefined && record.containerId !== containerId) continue;
      if (await this.#isWaitedFor(record)) continue;
      await this.#end(record, signal);
      removeFileSync(record.path);
    }
  }

  async #end(record: RunRecord, signal: AbortSignal): Promise<void> {
    const { plugin, type, command, containerId } = record;
    if (record.bootId !== bootId()) return;
    for (let tries = 0; (await provenMembers(record)).length > 0; tries += 1) {
      if (tries === 0) {
        this.log.info(
          { plugin: type, command, sandboxId: containerId, pid: plugin.pid },
          "killing an orphaned CNI plugin",
        );
      }
      killGroup(plugin.pid);
      try {
        await sleep(pollMs, signal);
      } catch (error) {
        const text = `end CNI plugin ${JSON.stringify(type)} ${command} of a previous run, process ${plugin.pid}`;
        throw ShimError.from(error).within(text);
      }
    }
  }

  /** By this process, or by another one that is alive. */
  async #isWaitedFor({ path, owner }: RunRecord): Promise<boolean> {
    if (owner.pid !== process.pid) return isAlive(owner);
    return this.#active.has(path) && (await isAlive(owner));
  }

  /** Of other processes and earlier ones, and of groups that did not die. */
  async #records(): Promise<readonly RunRecord[]> {
    const own = new Set([...this.#active, ...this.#free.map(({ path }) => path)]);
    const found: RunRecord[] = [];
    for (const name of this.#names()) {
      const path = join(this.directory, name);
      if (own.has(path)) continue;
      const content = readRegularFileSync(path, largestFileBytes);
      if (content.kind !== "read") continue;
      const record = recordIn(Buffer.from(content.bytes).toString("utf8"), path);
      if (record !== undefined) found.push(record);
      // Without a record, or with a part of one, whose plugin never got its input.
      else if (!(await isOfLivingProcess(name))) removeFileSync(path);
    }
    return found;
  }

  #names(): readonly string[] {
    try {
      return readdirSync(this.directory);
    } catch (error) {
      if (hasCode(error, "ENOENT", "ENOTDIR")) return [];
      throw fileError("list", this.directory, error);
    }
  }
}

/** Whether a process that lives may write a record into the file of that name; earlier releases had other names. */
async function isOfLivingProcess(name: string): Promise<boolean> {
  const [, pid, startTime] = /^(\d+)-(\d+)-\d+$/.exec(name) ?? [];
  return startTime !== undefined && isAlive({ pid: Number(pid), startTime });
}

function recordIn(text: string, path: string): RunRecord | undefined {
  try {
    const value = parseJson(text);
    if (!isObject(value)) return undefined;
    const [containerId, type, command, boot] = ["containerId", "type", "command", "bootId"].map((key) =>
      stringAt(value, key),
    );
    const [plugin, owner] = [markIn(value["plugin"]), markIn(value["owner"])];
    if (containerId === undefined || type === undefined || command === undefined || boot === undefined)
      return undefined;
    if (plugin === undefined || owner === undefined) return undefined;
    return { path, containerId, type, command, bootId: boot, plugin, owner };
  } catch {
    return undefined;
  }
}

function markIn(value: JsonObject[string] | undefined): ProcessMark | undefined {
  if (!isObject(value)) return undefined;
  const pid = Number(value["pid"]);
  const startTime = stringAt(value, "startTime");
  // As process groups, 0 means that of the caller, and 1 all processes.
  return Number.isInteger(pid) && pid > 1 && startTime !== undefined ? { pid, startTime } : undefined;
}

/**
 * Processes of the plugin's group; empty unless it is proven to be that group: its leader is the recorded
 * process, or a member has the environment of the plugin. The number of a group with members is not reused.
 */
async function provenMembers({ plugin, containerId, command }: RunRecord): Promise<readonly ProcessStat[]> {
  if (!groupLives(plugin.pid)) return [];
  const members: ProcessStat[] = [];
  for (const name of await readdir("/proc")) {
    if (!/^[1-9]\d*$/.test(name)) continue;
    const stat = await statOf(name);
    if (stat?.group === plugin.pid) members.push(stat);
  }
  for (const { pid, startTime } of members) {
    if (pid === plugin.pid) {
      if (startTime === plugin.startTime) return members;
      continue;
    }
    const environment = await readKernelFile(`/proc/${pid}/environ`).catch(() => "");
    const variables = environment.split("\0");
    const wanted = [`CNI_CONTAINERID=${containerId}`, `CNI_COMMAND=${command}`];
    if (wanted.every((variable) => variables.includes(variable))) return members;
  }
  return [];
}

function groupLives(group: number): boolean {
  try {
    process.kill(-group, 0);
    return true;
  } catch (error) {
    return !hasCode(error, "ESRCH");
  }
}
