/** Writes a container's log from its attached output: for log drivers that cannot be read back. */
import { orAbort, sleep, withDeadline } from "../../lib/abort.js";
import { isKind, messageOf, ShimError } from "../../lib/errors.js";
import type { Logger } from "../../lib/log.js";
import { WallClock } from "../../lib/time.js";
import type { Engine, ProcessStreams } from "../ports/engine.js";
import { LineAssembler, LineBuffer, OutputBatch } from "./cri-lines.js";
import { absenceNotice } from "./gaps.js";
import { beginning } from "./log-record.js";
import type { LogWriter } from "./log-source.js";
import type { LogOutput } from "./sink/log-output.js";

/** In milliseconds. */
export interface AttachTimes {
  /** Between checks whether a container runs again: output in between is lost. */
  readonly retry: number;
  /** The streams of an ended container are closed after this time without output. */
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
  readonly #clock = new WallClock();
  readonly #stop = new AbortController();
  /** Stops waiting for the container to run; its output is still read to the end. */
  readonly #finishing = new AbortController();
  #streams: ProcessStreams | undefined;
  /** How many pieces of output arrived, and how many batches of them are not in the file yet. */
  #pieces = 0;
  #unwritten = 0;
  #running: Promise<void> | undefined;

  constructor(
    private readonly output: LogOutput,
    private readonly source: AttachSource,
    private readonly log: Pick<Logger, "warn">,
    private readonly times: AttachTimes = defaultTimes,
  ) {}

  /** To be called before the container is started, so that no output is missed. */
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
    await this.output.lock.run(async () => {
      if (!this.output.isOpen) return;
      await this.output.save(beginning, { finished: true });
      await this.output.close();
    });
  }

  reopen(): Promise<void> {
    return this.output.lock.run(() => this.output.reopen(beginning));
  }

  async close(): Promise<void> {
    this.#stop.abort(new ShimError("cancelled", "the log is closed"));
    await this.#running;
    this.#streams?.close();
    await this.output.lock.run(() => this.output.close());
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
          this.log.warn({ containerId, err: messageOf(error) }, "cannot read container output, trying again");
        }
      }
      this.#streams?.close();
      this.#streams = undefined;
      if (this.#isFinishing) return;
      await sleep(this.times.retry, waiting).catch(() => undefined);
    }
  }

  /**
   * Whether it is attached now. It attaches to running containers only: the engine also accepts an ended
   * container, whose streams never end. One that was restarted meanwhile is found by the next check.
   */
  async #attachAgain(signal: AbortSignal): Promise<boolean> {
    if (signal.aborted) return false;
    const { engine, containerId } = this.source;
    const found = await withDeadline(signal, inspectTimeoutMs, "inspect the container", (limited) =>
      engine.inspectContainer(containerId, limited),
    );
    if (found?.state.running !== true) return false;
    await this.attach(signal);
    await this.#announceGap(this.#stop.signal);
    return true;
  }

  /** The engine ends the streams of an ended container, except streams that were attached too late. */
  async #closeWhenSilent(done: AbortSignal): Promise<void> {
    const ended = AbortSignal.any([done, this.#stop.signal]);
    while (!ended.aborted) {
      const before = this.#pieces;
      await sleep(this.times.silence, ended).catch(() => undefined);
      // Output that waits for a full disk is not silence.
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
      // Also after an error of the streams: the output so far is not lost.
      assemblers.stdout.end(this.#clock.now());
      assemblers.stderr.end(this.#clock.now());
      await this.#append(lines.take(), signal);
    }
  }

  async #announceGap(signal: AbortSignal): Promise<void> {
    const { containerId, gaps } = this.output.record;
    this.log.warn(
      { containerId, gaps: gaps + 1 },
      "container output is lost: it was not attached, and the log driver keeps none",
    );
    await this.#append(Buffer.from(absenceNotice(this.#clock.now(), gaps + 1)), signal);
    await this.output.lock.run(() => this.output.save(beginning, { gaps: gaps + 1 }));
  }

  async #append(lines: Buffer, signal: AbortSignal): Promise<void> {
    this.#unwritten += 1;
    try {
      await this.output.appendWithRetries(lines, signal);
    } finally {
      this.#unwritten -= 1;
    }
  }
}
