/** One container's log in a temporary directory, with writers that start, stop and are killed. */
import { fakeReach } from "../../fakes/reach.js";
import assert from "node:assert/strict";
import { mkdirSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Snapshot } from "../../../src/domain/snapshot.js";
import { FileWriter } from "../../../src/shim/logs/file/file-writer.js";
import { LogOutput } from "../../../src/shim/logs/sink/log-output.js";
import { ContainerLogWriters, type LogWritersDeps } from "../../../src/shim/logs/container-log-writers.js";
import { LogRecords, newRecord, type LogRecord } from "../../../src/shim/logs/log-record.js";
import { TurnQueue } from "../../../src/shim/logs/turn-queue.js";
import type { BackoffTimes } from "../../../src/lib/sync/backoff.js";
import type { LogWriter } from "../../../src/shim/logs/log-source.js";
import type { Written } from "../../../src/shim/logs/sink/log-sink.js";
import { FakeEngine } from "../../fakes/fake-engine.js";
import { containerSnapshot, idOf } from "../../fakes/snapshots.js";
import { recordingLog } from "../../fakes/recording-log.js";
import { temporaryDirectory } from "../lib/temporary-directory.js";
import { FakeDockerLog } from "./file/fake-docker-log.js";

export const containerId = idOf("ab");

interface BenchOptions {
  readonly maxFiles?: number;
  readonly compress?: boolean;
  readonly emptiedAtBytes?: number;
  readonly archiveLimitBytes?: number;
}

export class LogFiles implements AsyncDisposable {
  readonly log = recordingLog();
  /** All records in the order in which they reached the disk. */
  readonly saved: LogRecord[] = [];
  readonly directory: string;
  records!: LogRecords;
  output!: LogOutput;
  writer: Pick<LogWriter, "close"> | undefined;

  constructor(private readonly root: Awaited<ReturnType<typeof temporaryDirectory>>) {
    this.directory = root.path;
    mkdirSync(join(this.directory, "pod"));
  }

  get target(): { readonly directory: string; readonly path: string } {
    return { directory: join(this.directory, "pod"), path: this.path };
  }

  get path(): string {
    return join(this.directory, "pod", "0.log");
  }

  get written(): string {
    return readFileSync(this.path, "utf8");
  }

  get recordPath(): string {
    return join(this.directory, "logs", `${containerId}.json`);
  }

  openRecords(): Promise<LogRecords> {
    return LogRecords.open(join(this.directory, "logs"), this.log, join(this.directory, "quarantine"));
  }

  async putRecord(record: LogRecord = newRecord(containerId, this.target)): Promise<void> {
    await (await this.openRecords()).put(record);
  }

  /** Opens the log as a new process. */
  async openOutput(): Promise<Written> {
    this.records = await this.openRecords();
    const move = this.records.move.bind(this.records);
    this.records.move = async (record) => {
      await move(record);
      await this.records.storeLate();
      this.saved.push(record);
    };
    this.output = new LogOutput(this.records.get(containerId)!, this.records, this.log);
    return (await this.output.open({ create: true }))!;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.writer?.close();
    await this.root[Symbol.asyncDispose]();
  }
}

/** A log with a writer that can be started as by a new process. */
export abstract class WrittenLog extends LogFiles {
  declare writer: Pick<LogWriter, "finish" | "close" | "reopen">;

  abstract start(): Promise<void>;

  /** Writes all that there is, as a process does that starts after the end of the container. */
  async run(): Promise<void> {
    await this.start();
    await this.writer.finish();
  }
}

/** All logs of a process, with its records in `root`. */
export async function openLogWriters(
  root: string,
  log: LogWritersDeps["log"],
  options: Partial<Pick<LogWritersDeps, "engine" | "host" | "adopted" | "format">> = {},
  times?: BackoffTimes,
): Promise<ContainerLogWriters> {
  const records = await LogRecords.open(join(root, "logs"), log, join(root, "quarantine"));
  const local = { engine: new FakeEngine(), host: () => ({ reach: fakeReach(true) }) };
  const deps = { ...local, log, format: "cri", adopted: "keep", records, ...options } as const;
  return new ContainerLogWriters(deps, times);
}

/** A container with Docker's file, and processes that write its log. */
export class LoggedContainer implements AsyncDisposable {
  readonly log = recordingLog();
  readonly root: string;
  readonly docker: FakeDockerLog;
  readonly target: { readonly directory: string; readonly path: string };
  readonly #writers: ContainerLogWriters[] = [];

  /** `logPath`: within the log directory of the pod. */
  constructor(
    private readonly temporary: Awaited<ReturnType<typeof temporaryDirectory>>,
    logPath: string,
  ) {
    this.root = temporary.path;
    this.docker = new FakeDockerLog(this.#made("containers", containerId, `${containerId}-json.log`));
    const directory = dirname(this.#made("pod", "0.log"));
    this.target = { directory, path: join(directory, logPath) };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const writers of this.#writers) await writers.stop();
    assert.equal(this.openCount, 0, "files that stay open");
    await this.temporary[Symbol.asyncDispose]();
  }

  /** A path whose directory is there. */
  #made(...names: readonly string[]): string {
    const path = join(this.root, ...names);
    mkdirSync(dirname(path), { recursive: true });
    return path;
  }

  /** The writers of a process. */
  async openWriters(
    options: Parameters<typeof openLogWriters>[2],
    times?: BackoffTimes,
  ): Promise<ContainerLogWriters> {
    const writers = await openLogWriters(this.root, this.log, options, times);
    this.#writers.push(writers);
    return writers;
  }

  at(state: Partial<Snapshot["state"]>): Snapshot {
    const changes = { logDriver: "json-file", logPath: this.docker.path };
    const container = containerSnapshot(containerId, idOf("cd"), changes);
    return { ...container, state: { ...container.state, running: state.status === "running", ...state } };
  }

  get running(): Snapshot {
    return this.at({ status: "running" });
  }

  get exited(): Snapshot {
    return this.at({ status: "exited", finished: 1n });
  }

  get recordPath(): string {
    return join(this.root, "logs", `${containerId}.json`);
  }

  /** How often this process has the log file open. */
  get openCount(): number {
    const targets = readdirSync("/proc/self/fd").map((fd) => {
      try {
        return readlinkSync(`/proc/self/fd/${fd}`);
      } catch {
        return "";
      }
    });
    return targets.filter((path) => path === this.target.path).length;
  }
}

/** A log that is written from Docker's file. */
export class LogBench extends WrittenLog {
  readonly docker: FakeDockerLog;

  constructor(
    root: Awaited<ReturnType<typeof temporaryDirectory>>,
    private readonly options: BenchOptions,
  ) {
    super(root);
    mkdirSync(join(this.directory, "docker"));
    this.docker = new FakeDockerLog(join(this.directory, "docker", `${containerId}-json.log`), options);
  }

  static async open(options: BenchOptions = {}): Promise<LogBench> {
    const bench = new LogBench(await temporaryDirectory(), options);
    await bench.putRecord();
    return bench;
  }

  async start(): Promise<void> {
    this.saved.length = 0;
    const written = await this.openOutput();
    const writer = new FileWriter(
      this.output,
      written,
      {
        path: this.docker.path,
        archiveLimitBytes: this.options.archiveLimitBytes ?? 1024 * 1024,
        emptiedAtBytes: this.options.emptiedAtBytes,
      },
      new TurnQueue((error) => {
        this.log.error({ err: String(error) }, "a turn failed");
      }),
      this.log,
    );
    writer.start();
    this.writer = writer;
  }

  /** Leaves what a kill could leave: a random record since the start, and a possible size of the log then. */
  async kill(share: () => number): Promise<void> {
    const size = readFileSync(this.path).length;
    const own = this.saved.filter(({ sink }) => sink.inode === this.output.record.sink.inode);
    await this.writer.close();
    if (own.length === 0) return;
    const index = Math.floor(share() * own.length);
    const record = own[index];
    if (record === undefined) return;
    const latest = own[index + 1]?.sink.size ?? size;
    writeFileSync(this.recordPath, JSON.stringify(record));
    const kept = record.sink.size + Math.floor(share() * (latest - record.sink.size + 1));
    const log = readFileSync(this.path).subarray(0, kept);
    // In place: the record knows the file by its inode.
    writeFileSync(this.path, log);
  }
}

/** A sequence of numbers below one, the same for the same seed. */
export function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1664525 + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}
