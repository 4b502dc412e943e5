/**
 * Records of running plugins that change something. Those of a killed program go on, and an ADD could end
 * after its DEL, so the next process kills them. What a plugin has left running after its end lives on.
 */
import { readdir, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { sleep } from "../../lib/abort.js";
import { createDirectory, namesIn } from "../../lib/files/directories.js";
import { messageOf, ShimError } from "../../lib/errors.js";
import { hasCode, unlessMissing } from "../../lib/files/file-errors.js";
import { readKernelFile } from "../../lib/linux/kernel-file.js";
import type { Logger } from "../../lib/log.js";
import { bootId } from "../../lib/linux/network-namespaces.js";
import { isAlive, markOf, type ProcessMark, statOf } from "../../lib/linux/process-mark.js";
import type { ProcessStat } from "../../lib/linux/process-stat.js";
import { readRegularFile } from "../../lib/files/state-files.js";
import { isObject, parseJson, stringAt, type JsonObject } from "../../lib/json/exact-json.js";

export interface RunningPlugin {
  readonly containerId: string;
  readonly type: string;
  readonly command: string;
}

/** `killed` also by other programs. */
export type PluginEnd = "byItself" | "killed";

/** To be called when the plugin has ended, or is no longer waited for. */
export type ForgetPlugin = (end: PluginEnd) => Promise<void>;

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
  #self: ProcessMark | undefined;

  /** Files in `directory`, made when needed. They need not survive a reboot: no plugin does. */
  constructor(
    private readonly directory: string,
    private readonly log: Pick<Logger, "info" | "warn">,
  ) {}

  /** Before the process gets its input; the result removes the record. A failed write is only logged. */
  async note({ containerId, type, command }: RunningPlugin, pid: number): Promise<ForgetPlugin> {
    const path = join(this.directory, `${containerId === "" ? "node" : containerId}.${pid}`);
    try {
      const plugin = markOf(pid);
      const owner = (this.#self ??= markOf(process.pid));
      if (plugin === undefined || owner === undefined) return () => Promise.resolve();
      const record = { version, containerId, type, command, bootId: bootId(), plugin, owner };
      this.#active.add(path);
      await this.#write(path, JSON.stringify(record));
    } catch (error) {
      this.log.warn({ path, err: messageOf(error) }, "cannot record a running CNI plugin");
    }
    return async (end) => {
      this.#active.delete(path);
      // The record of a killed group that does not die stays: the next DEL waits for it. What a plugin leaves
      // running after its own end is intended, such as the DHCP client of a pod.
      if (end === "byItself" || !groupLives(pid)) await unlink(path).catch(() => undefined);
    };
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
      await remove(record.path);
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

  async #write(path: string, text: string): Promise<void> {
    const write = (): Promise<void> => writeFile(path, text, { mode: fileMode });
    await write().catch(async (error: unknown) => {
      if (!hasCode(error, "ENOENT")) throw error;
      await createDirectory(this.directory, directoryMode);
      await write();
    });
  }

  async #records(): Promise<readonly RunRecord[]> {
    const found: RunRecord[] = [];
    for (const name of await namesIn(this.directory)) {
      const path = join(this.directory, name);
      if (this.#active.has(path)) continue;
      const content = await readRegularFile(path, largestFileBytes);
      if (content.kind !== "read") continue;
      const record = recordIn(Buffer.from(content.bytes).toString("utf8"), path);
      // Written in part: the plugin never got its input.
      if (record === undefined) await remove(path);
      else found.push(record);
    }
    return found;
  }
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

/** As `rm` with `force`, which asks for the kind of the file first. */
async function remove(path: string): Promise<void> {
  await unlink(path).catch(unlessMissing);
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

function killGroup(group: number): void {
  try {
    process.kill(-group, "SIGKILL");
  } catch (error) {
    if (!hasCode(error, "ESRCH")) throw error;
  }
}
