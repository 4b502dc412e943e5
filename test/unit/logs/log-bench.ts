/** One container's log on files: a source of Docker, a log path, and writers that come and go. */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { FileWriter } from "../../../src/shim/logs/file/file-writer.js";
import { LogOutput } from "../../../src/shim/logs/sink/log-output.js";
import { LogRecords, newRecord, type LogRecord } from "../../../src/shim/logs/log-record.js";
import { TurnQueue } from "../../../src/shim/logs/turn-queue.js";
import { idOf } from "../../fakes/snapshots.js";
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

export class LogBench implements AsyncDisposable {
  readonly log = recordingLog();
  /** Every record in the order in which it reached the disk, since the last start. */
  readonly saved: LogRecord[] = [];
  records!: LogRecords;
  output!: LogOutput;
  writer!: FileWriter;

  private constructor(
    readonly directory: string,
    readonly docker: FakeDockerLog,
    private readonly options: BenchOptions,
    private readonly cleanUp: () => Promise<void>,
  ) {}

  static async open(options: BenchOptions = {}): Promise<LogBench> {
    const directory = await temporaryDirectory();
    mkdirSync(join(directory.path, "docker"));
    mkdirSync(join(directory.path, "pod"));
    const docker = new FakeDockerLog(join(directory.path, "docker", `${containerId}-json.log`), options);
    const bench = new LogBench(directory.path, docker, options, () =>
      Promise.resolve(directory[Symbol.asyncDispose]()),
    );
    const records = await bench.#open();
    await records.put(newRecord(containerId, { directory: join(directory.path, "pod"), path: bench.path }));
    return bench;
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

  /** As a shim that starts. */
  async start(): Promise<void> {
    this.records = await this.#open();
    this.saved.length = 0;
    const move = this.records.move.bind(this.records);
    this.records.move = async (record) => {
      await move(record);
      this.saved.push(record);
    };
    const record = this.records.get(containerId);
    if (record === undefined) throw new Error("no record");
    this.output = new LogOutput(record, this.records, this.log);
    const written = await this.output.open({ create: true });
    if (written === undefined) throw new Error("no log file");
    this.writer = new FileWriter(
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
    this.writer.start();
  }

  /**
   * What a kill would have left: of the records that were written since the start the one at `share`, and of the log as
   * many bytes as it can have had then.
   */
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

  async [Symbol.asyncDispose](): Promise<void> {
    await this.writer.close();
    rmSync(this.docker.path, { force: true });
    await this.cleanUp();
  }

  #open(): Promise<LogRecords> {
    return LogRecords.open(join(this.directory, "logs"), this.log, join(this.directory, "quarantine"));
  }
}

/** Numbers below one that are the same for the same seed. */
export function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1664525 + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}
