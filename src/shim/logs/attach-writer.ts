/** Writes a container's log from its output itself: for log drivers that keep nothing that could be read back. */
import { orAbort, sleep, withDeadline } from "../lib/abort.js";
import { isKind, messageOf, ShimError } from "../lib/errors.js";
import type { Logger } from "../lib/log.js";
import { WallClock } from "../lib/wall-clock.js";
import type { Engine, ProcessStreams } from "../ports/engine.js";
import { LineAssembler, LineBuffer } from "./cri-lines.js";
import { absenceNotice } from "./gap-notice.js";
import { Lock, type LogOutput } from "./sink/log-output.js";
import { beginning } from "./log-record.js";
import type { LogWriter } from "./log-writer.js";
import { OutputBatch } from "./output-batch.js";
import { appendPatiently } from "./sink/append-with-retries.js";

/** In milliseconds. */
export interface AttachTimes {
  /** Between two looks whether a container runs again whose streams have ended: what it writes meanwhile is lost. */
  readonly retry: number;
  /** The streams of a container that has ended are closed when nothing came of them for so long. */
  readonly silence: number;
}

const defaultTimes: AttachTimes = { retry: 1_000, silence: 1_000 };
const inspectTimeoutMs = 10_000;

export interface AttachSource {
  readonly engine: Pick<Engine, "attachContainer" | "inspectContainer">;
  readonly containerId: string;
  readonly tty: boolean;
}

export class AttachWriter implements LogWriter {
  readonly #locks = new Lock();
  readonly #clock = new WallClock();
  readonly #stop = new AbortController();
  /** Ends what waits for the container to run; its output is still read to the end. */
  readonly #finishing = new AbortController();
  #streams: ProcessStreams | undefined;
  /** How often output came, and how many pieces of it are not in the file yet. */
  #pieces = 0;
  #unwritten = 0;
  #running: Promise<void> | undefined;

  constructor(
    private readonly output: LogOutput,
    private readonly source: AttachSource,
    private readonly log: Pick<Logger, "warn">,
    private readonly times: AttachTimes = defaultTimes,
  ) {}

  /** Before the container is started, so that nothing is missed. */
  async attach(signal: AbortSignal): Promise<void> {
    const { engine, containerId, tty } = this.source;
    const wanted = { stdin: false, stdout: true, stderr: true, tty };
    // The attempt ends with `signal`, the streams end with the writer.
    const attempt = new AbortController();
    const ends = AbortSignal.any([this.#stop.signal, attempt.signal]);
    const opening = engine.attachContainer(containerId, wanted, ends);
    this.#streams = await orAbort(opening, signal).catch((error: unknown) => {
      attempt.abort(error);
      void opening.then(
        (streams) => {
          streams.close();
        },
        () => undefined,
      );
      throw error;
    });
  }

  start(): void {
    this.#running ??= this.#run();
  }

  async finish(): Promise<void> {
    this.#finishing.abort(new ShimError("cancelled", "the container has ended"));
    this.start();
    const done = new AbortController();
    void this.#closeWhenSilent(done.signal);
    await this.#running;
    done.abort();
    await this.#locks.run(async () => {
      if (!this.output.isOpen) return;
      await this.output.save(beginning, { finished: true });
      await this.output.close();
    });
  }

  reopen(): Promise<void> {
    return this.#locks.run(() => this.output.reopen(beginning));
  }

  async close(): Promise<void> {
    this.#stop.abort(new ShimError("cancelled", "the log is closed"));
    await this.#running;
    this.#streams?.close();
    await this.#locks.run(() => this.output.close());
  }

  get #isFinishing(): boolean {
    return this.#finishing.signal.aborted;
  }

  /** Never rejects. */
  async #run(): Promise<void> {
    const waiting = AbortSignal.any([this.#stop.signal, this.#finishing.signal]);
    let hasReported = false;
    while (!this.#stop.signal.aborted) {
      try {
        if (this.#streams !== undefined || (await this.#attachAgain(waiting))) {
          hasReported = false;
          await this.#copy(this.#stop.signal);
        }
      } catch (error) {
        if (!hasReported && !waiting.aborted && !isKind(error, "precondition", "conflict", "notFound")) {
          hasReported = true;
          const { containerId } = this.source;
          this.log.warn(
            { containerId, err: messageOf(error) },
            "cannot read a container's output, trying again",
          );
        }
      }
      this.#streams?.close();
      this.#streams = undefined;
      if (this.#isFinishing) return;
      await sleep(this.times.retry, waiting).catch(() => undefined);
    }
  }

  /**
   * Whether it is attached now. Only to a container that runs: the engine lets one attach to a container that has ended,
   * and such streams never end. One that is started again before anybody heard of its end is found by the next look.
   */
  async #attachAgain(signal: AbortSignal): Promise<boolean> {
    if (signal.aborted) return false;
    const { engine, containerId } = this.source;
    const found = await withDeadline(signal, inspectTimeoutMs, "look whether it runs", (limited) =>
      engine.inspectContainer(containerId, limited),
    );
    if (found?.state.running !== true) return false;
    await this.attach(signal);
    await this.#announceGap(this.#stop.signal);
    return true;
  }

  /** The engine ends the streams of a container that ends, but for those that came a moment too late. */
  async #closeWhenSilent(done: AbortSignal): Promise<void> {
    const ended = AbortSignal.any([done, this.#stop.signal]);
    while (!ended.aborted) {
      const before = this.#pieces;
      await sleep(this.times.silence, ended).catch(() => undefined);
      // What waits for a full disk is not silent.
      if (this.#pieces === before && this.#unwritten === 0) this.#streams?.close();
    }
  }

  async #copy(signal: AbortSignal): Promise<void> {
    const streams = this.#streams;
    if (streams === undefined) return;
    const lines = new LineBuffer();
    const assemblers = {
      stdout: new LineAssembler("stdout", lines),
      stderr: new LineAssembler("stderr", lines),
    };
    const batch = new OutputBatch(() => this.#append(lines.take(), signal));
    try {
      await streams.readOutput((stream, data) => {
        this.#pieces += 1;
        assemblers[stream].push(data, this.#clock.now());
        return batch.settled();
      });
    } finally {
      // Also when they broke: what came is not lost.
      assemblers.stdout.end(this.#clock.now());
      assemblers.stderr.end(this.#clock.now());
      await this.#append(lines.take(), signal);
    }
  }

  async #announceGap(signal: AbortSignal): Promise<void> {
    const { containerId, gaps } = this.output.record;
    this.log.warn(
      { containerId, gaps: gaps + 1 },
      "output of a container was missed, its log driver keeps none",
    );
    await this.#append(Buffer.from(absenceNotice(this.#clock.now(), gaps + 1)), signal);
    await this.#locks.run(() => this.output.save(beginning, { gaps: gaps + 1 }));
  }

  async #append(lines: Buffer, signal: AbortSignal): Promise<void> {
    const { output } = this;
    this.#unwritten += 1;
    try {
      await appendPatiently(
        lines,
        { output, lock: this.#locks, onAppended: () => Promise.resolve() },
        signal,
      );
    } finally {
      this.#unwritten -= 1;
    }
  }
}
