/** What goes into a bundle: texts without secrets, within limits of size. Changes nothing. */
import { arch, release } from "node:os";
import { basename, join } from "node:path";
import { open } from "node:fs/promises";
import { messageOf } from "../../lib/errors.js";
import { namesIn } from "../../lib/files/directories.js";
import { readRegularFile } from "../../lib/files/state-files.js";
import { judge } from "../../migrate/judge/check-report.js";
import { type RunCommand, runCommand } from "../../network/iptables/run-command.js";
import type { ProcessIo } from "../../cli/process-io.js";
import type { DoctorFacts, PlaceFacts } from "../facts.js";
import type { Gathered } from "../gather/gather-facts.js";
import { isBelowHung } from "../gather/read-host.js";
import { diagnose } from "../judge/diagnose.js";
import { historyDirectory, latestFile } from "../../history/history-files.js";
import { redact, redactValue } from "../../lib/redact.js";

export interface BundleEntry {
  readonly name: string;
  readonly text: string;
}

export interface BundleLimits {
  readonly fileBytes: number;
  readonly logBytes: number;
  readonly totalBytes: number;
  readonly files: number;
}

const mebibyte = 1024 ** 2;
const defaultLimits: BundleLimits = {
  fileBytes: 256 * 1024,
  logBytes: 2 * mebibyte,
  totalBytes: 16 * mebibyte,
  files: 5_000,
};

const journalLines = 5_000;
const journalMs = 20_000;
/** Units whose last lines are of use. */
const units = ["dockershim.service", "docker.service"] as const;
/** What this program writes below the state directory. */
const stateDirectories = ["sandbox", "pods", "containers", "logs", "quarantine"] as const;

export interface CollectOptions {
  /** A file that the server's log goes to, where that is not the journal. */
  readonly logFile: string | undefined;
  readonly limits?: BundleLimits;
  readonly run?: RunCommand;
}

export async function collect(
  { facts, resolved }: Gathered,
  { logFile, limits = defaultLimits, run = runCommand }: CollectOptions,
  { version, commit }: Pick<ProcessIo, "version" | "commit">,
): Promise<readonly BundleEntry[]> {
  const bundle = new Bundle(limits, facts.places);
  bundle.addValue("report.json", diagnose(facts, version));
  bundle.addValue("versions.json", versionsOf(facts, { version, commit }));
  bundle.addValue("facts.json", { ...facts, migration: facts.migration.problem ?? "see check.json" });
  if (facts.migration.seen !== undefined) {
    const about = { program: version, at: new Date(facts.atMs).toISOString() };
    bundle.addValue("check.json", judge(facts.migration.seen, "dockershim", about));
  }
  bundle.addValue("config.json", resolved.sources);
  // The logs before the records: of many pods the records may take all the room.
  if (logFile !== undefined) await bundle.addTail("log/server.log", logFile);
  for (const unit of units) bundle.addText(`log/${unit}.log`, await journalOf(unit, run), limits.logBytes);
  const { config } = resolved;
  const daemonJson = facts.migration.seen?.daemonConfig?.path;
  if (daemonJson !== undefined) await bundle.addFile("etc/daemon.json", daemonJson);
  await bundle.addDirectory("etc/cni", config.cniConfDir);
  for (const name of stateDirectories)
    await bundle.addDirectory(`state/${name}`, join(config.stateDir, name));
  await bundle.addHistory("state/history.jsonl", historyDirectory(config.stateDir));
  await bundle.addFile("state/pod-cidrs.json", join(config.stateDir, "pod-cidrs.json"));
  return bundle.entries();
}

function versionsOf(
  { engine, migration, firewall }: DoctorFacts,
  program: Pick<ProcessIo, "version" | "commit">,
): Readonly<Record<string, string>> {
  const info = engine.state === "answers" ? engine.facts.info : undefined;
  return {
    dockershim: `${program.version} (${program.commit})`,
    node: process.version,
    kernel: `${release()} ${arch()}`,
    engine: info?.engineVersion ?? "",
    engineApi: info?.engineApiVersion ?? "",
    kubelet: migration.seen?.kubelet.version?.text ?? "",
    iptables: firewall.seen?.version ?? "",
  };
}

async function journalOf(unit: string, run: RunCommand): Promise<string> {
  const words = ["--no-pager", "--output=cat", `--lines=${journalLines}`, `--unit=${unit}`];
  try {
    const { stdout, stderr } = await run("journalctl", words, {
      signal: AbortSignal.timeout(journalMs),
      timeoutMs: journalMs,
    });
    return `${stdout}${stderr}`;
  } catch (error) {
    return `${messageOf(error)}\n`;
  }
}

/** Read before the end that is kept: what begins there, as a private key, is known as a secret. */
const contextBytes = 64 * 1024;

function lastLines(bytes: Buffer, limitBytes: number): Buffer {
  if (bytes.length <= limitBytes) return bytes;
  const end = bytes.subarray(bytes.length - limitBytes);
  return end.subarray(end.indexOf("\n") + 1);
}

/** Entries until a limit is reached; what is left out is listed. */
class Bundle {
  readonly #entries: BundleEntry[] = [];
  readonly #leftOut: string[] = [];
  #bytes = 0;

  constructor(
    private readonly limits: BundleLimits,
    private readonly places: readonly PlaceFacts[],
  ) {}

  addValue(name: string, value: unknown): void {
    this.#add({ name, text: `${JSON.stringify(redactValue(value), undefined, 2)}\n` });
  }

  /** The end of the text, from the begin of a line. */
  addText(name: string, text: string, limitBytes: number): void {
    const end = lastLines(Buffer.from(text), limitBytes + contextBytes);
    this.#add({ name, text: lastLines(Buffer.from(redact(end.toString())), limitBytes).toString() });
  }

  async addFile(name: string, path: string): Promise<void> {
    if (this.#hangs(name, path)) return;
    try {
      const reading = await readRegularFile(path, this.limits.fileBytes);
      if (reading.kind === "absent") return;
      if (reading.kind === "unfit") this.#leaveOut(name, reading.reason);
      else this.#add({ name, text: redact(Buffer.from(reading.bytes).toString()) });
    } catch (error) {
      this.#leaveOut(name, messageOf(error));
    }
  }

  async addTail(name: string, path: string): Promise<void> {
    if (this.#hangs(name, path)) return;
    const { logBytes } = this.limits;
    try {
      await using file = await open(path);
      const { size } = await file.stat();
      const buffer = Buffer.alloc(Math.min(size, logBytes + contextBytes + 1));
      const { bytesRead } = await file.read(buffer, 0, buffer.length, Math.max(0, size - buffer.length));
      this.addText(name, buffer.subarray(0, bytesRead).toString(), logBytes);
    } catch (error) {
      this.#leaveOut(name, messageOf(error));
    }
  }

  /** The end of the file that was written last. */
  async addHistory(name: string, directory: string): Promise<void> {
    if (this.#hangs(name, directory)) return;
    const path = latestFile(directory);
    if (path !== undefined) await this.addTail(name, path);
  }

  /** Its regular files; links, as of mounted ConfigMaps, are left out. */
  async addDirectory(name: string, directory: string): Promise<void> {
    if (this.#hangs(name, directory)) return;
    try {
      for (const file of [...(await namesIn(directory))].sort())
        await this.addFile(`${name}/${basename(file)}`, join(directory, file));
    } catch (error) {
      this.#leaveOut(name, messageOf(error));
    }
  }

  entries(): readonly BundleEntry[] {
    if (this.#leftOut.length === 0) return this.#entries;
    return [...this.#entries, { name: "left-out.txt", text: `${this.#leftOut.join("\n")}\n` }];
  }

  #hangs(name: string, path: string): boolean {
    const hangs = isBelowHung(this.places, path);
    if (hangs) this.#leaveOut(name, "the file system does not answer");
    return hangs;
  }

  #add(entry: BundleEntry): void {
    const bytes = Buffer.byteLength(entry.text);
    const { totalBytes, files } = this.limits;
    if (this.#bytes + bytes > totalBytes || this.#entries.length >= files) {
      this.#leaveOut(entry.name, "the bundle is full");
      return;
    }
    this.#bytes += bytes;
    this.#entries.push(entry);
  }

  #leaveOut(name: string, reason: string): void {
    if (this.#leftOut.length < this.limits.files) this.#leftOut.push(`${name}: ${reason}`);
  }
}
