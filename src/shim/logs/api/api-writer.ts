/**
 * Writes a container's log from the logs API: for log drivers without files, and for remote engines. Each line
 * is written at least once: after the log file's last line the log continues with the line behind it. It is
 * searched for by its time and text, so that a line that the engine has twice may be written again.
 */
import { sleep } from "../../../lib/abort.js";
import { messageOf, ShimError } from "../../../lib/errors.js";
import { Backoff } from "../../../lib/sync/backoff.js";
import type { Logger } from "../../../lib/log.js";
import { GapMarker, noticeTime } from "../gaps.js";
import { beginning, type SourcePosition } from "../log-record.js";
import type { LogWriter } from "../log-source.js";
import { retryWrite, type LogOutput } from "../sink/log-output.js";
import type { Written } from "../sink/log-sink.js";
import { lacksNewest } from "./clock-steps.js";
import {
  beforeSecond,
  lastLine,
  linesIn,
  marginSeconds,
  readLines,
  Replay,
  secondIn,
  secondOf,
  timeIn,
  withWholeTime,
  type ApiSource,
} from "./replay.js";

const retryMs = { first: 200, longest: 5_000 };
/** After so many restarts in a row there is a pause before the next one, as after other failures. */
const promptRestarts = 8;
/** Entries of two streams may be stored slightly out of order. */
const disorderSeconds = 1;
/** A clock that was set back is noticed within this time. */
const noticedWithinSeconds = 60;

/** Where the log continues in a replay. */
type ResumePoint =
  /** At the first line from a second on: no line of the engine is known. */
  | { readonly kind: "start"; readonly since: number }
  /** Behind the last line of the log. */
  | { readonly kind: "behind"; readonly last: Buffer }
  /**
   * The engine does not have that line any more: at the first line that is newer than `time`, or at the first
   * one when it is empty. A notice comes before it.
   */
  | { readonly kind: "gap"; readonly time: string; readonly last: Buffer }
  /** The notice of a gap is written or recorded: at the first line that is not older than `time`. */
  | { readonly kind: "announced"; readonly time: string };

/** The replay does not have the last line where it must be. */
class Missing extends Error {}

export class ApiWriter implements LogWriter {
  readonly #stop = new AbortController();
  /** Ends the present replay, for the last one. */
  #following = new AbortController();
  #resume: ResumePoint;
  /** Replays begin here at the latest, because the clock was set back. */
  #earliest = Infinity;
  /** The newest entries have to be checked for a clock that was set back. */
  #isCheckDue = true;
  readonly #stopListening: () => void;
  readonly #marker: GapMarker;
  #isFinishing = false;
  #running: Promise<void> | undefined;

  constructor(
    private readonly output: LogOutput,
    { lines, last }: Written,
    private readonly source: ApiSource,
    private readonly log: Pick<Logger, "warn">,
  ) {
    const { position, gaps } = output.record;
    // A recorded notice is the first line after the position.
    const pending = lines > 0 ? "" : position.notice;
    this.#marker = new GapMarker(pending, output, () => this.#position, log);
    const time = noticeTime(pending === "" ? last : Buffer.from(pending), gaps);
    // The time may be from Docker's file.
    if (time !== undefined)
      this.#resume = { kind: "announced", time: timeIn(withWholeTime(Buffer.from(`${time} `))) };
    else if (last !== undefined) this.#resume = { kind: "behind", last: withWholeTime(last) };
    else this.#resume = { kind: "start", since: position.since };
    this.#stopListening = source.clockSteps.onSetBack(() => {
      const now = Math.floor(Date.now() / 1000);
      this.#earliest = Math.min(this.#earliest, now - noticedWithinSeconds);
      this.#isCheckDue = true;
      this.#following.abort(new ShimError("cancelled", "the clock was set back"));
    });
  }

  start(): void {
    this.#running ??= this.#run();
  }

  async finish(): Promise<void> {
    this.#isFinishing = true;
    this.#following.abort(new ShimError("cancelled", "the container has ended"));
    this.start();
    await this.#running;
  }

  reopen(): Promise<void> {
    return this.output.lock.run(() => this.output.reopen(this.#position));
  }

  async close(): Promise<void> {
    this.#stopListening();
    this.#stop.abort(new ShimError("cancelled", "the log is closed"));
    await this.#running;
    await this.output.lock.run(async () => {
      if (this.output.hasUnrecorded) await this.output.save(this.#position);
      await this.output.close();
    });
  }

  get #position(): SourcePosition {
    // The last line is in the log file; without that file, the second alone is known. Its line counts as one.
    const lines = this.#resume.kind === "behind" ? 1 : 0;
    return { ...beginning, since: sinceOf(this.#resume), lines, notice: this.#marker.notice };
  }

  /** Never rejects. */
  async #run(): Promise<void> {
    const { signal } = this.#stop;
    const backoff = new Backoff(retryMs);
    let hasReported = false;
    let restarts = 0;
    while (!signal.aborted) {
      const isLast = this.#isFinishing;
      this.#following = new AbortController();
      const replaySignal = AbortSignal.any([signal, this.#following.signal]);
      try {
        const caughtUp = await this.#catchUp(replaySignal);
        if (isLast) {
          await this.#finished();
          return;
        }
        await this.#replay({ follow: true, caughtUp }, replaySignal);
        hasReported = false;
        backoff.reset();
        restarts = 0;
      } catch (error) {
        if (this.#stop.signal.aborted) return;
        if (this.#following.signal.aborted) continue;
        if (error instanceof Missing && (restarts += 1) <= promptRestarts) continue;
        this.#isCheckDue = true;
        const { containerId } = this.source;
        if (!hasReported) {
          this.log.warn({ containerId, err: messageOf(error) }, "cannot read container log, trying again");
        }
        hasReported = true;
      }
      // The container or the engine may have ended. The end of the container is reported by `finish`.
      await sleep(backoff.next(), replaySignal).catch(() => undefined);
    }
  }

  /** Writes all that the engine has by now. */
  async #catchUp(signal: AbortSignal): Promise<Replay> {
    // An engine that did not have that line may have it again: its log may not have been readable.
    if (this.#resume.kind === "gap") this.#resume = { kind: "behind", last: this.#resume.last };
    const before = this.#resume;
    await this.#checkClock(signal);
    let replay = await this.#replay({ follow: false }, signal);
    if (before.kind === "behind" && !replay.hasResumed) {
      const { last } = before;
      const isDisturbed = replay.hasStepBack || replay.newest < secondIn(last) - marginSeconds;
      this.#resume = { kind: "gap", time: isDisturbed ? "" : timeIn(last), last };
      replay = await this.#replay({ follow: false }, signal);
    }
    // The last line is one after the clock was set back.
    if (this.#hasMovedFrom(before)) this.#earliest = Infinity;
    return replay;
  }

  async #checkClock(signal: AbortSignal): Promise<void> {
    if (!this.#isCheckDue) return;
    if (await lacksNewest(this.source, this.#since, signal)) this.#earliest = 0;
    this.#isCheckDue = false;
  }

  #hasMovedFrom(before: ResumePoint): boolean {
    return this.#resume.kind === "behind" && this.#resume !== before;
  }

  /** The begin of the next replay. */
  get #since(): number {
    return Math.max(0, Math.min(this.#earliest, sinceOf(this.#resume)));
  }

  /** Writes the lines behind the resume point. `caughtUp`: the replay before a followed one. */
  async #replay(
    { follow, caughtUp }: { readonly follow: boolean; readonly caughtUp?: Replay },
    signal: AbortSignal,
  ): Promise<Replay> {
    const { engine, containerId, tty, logDriver } = this.source;
    await this.#writeNotice(signal);
    const replay = new Replay();
    const options = { sinceSeconds: this.#since, follow, tty };
    const stream = await engine.containerLogs(containerId, options, signal);
    try {
      await readLines(stream, { tty, losesLineEnds: logDriver === "local" }, async (lines) => {
        const fresh = replay.hasResumed ? lines : this.#skipIn(lines, replay, caughtUp);
        if (!follow) for (const line of linesIn(fresh)) replay.add(line);
        if (fresh.length > 0) await this.#write(fresh, signal);
      });
    } finally {
      stream.close();
    }
    return replay;
  }

  /** The rest of `lines` behind the resume point. */
  #skipIn(lines: Buffer, replay: Replay, caughtUp: Replay | undefined): Buffer {
    const resume = this.#resume;
    for (const line of linesIn(lines)) {
      const isLast = resume.kind === "behind" && line.equals(resume.last);
      if (isLast || isBehind(line, resume)) {
        replay.hasResumed = true;
        if (isLast) replay.add(line);
        return lines.subarray(line.byteOffset - lines.byteOffset + (isLast ? line.length : 0));
      }
      replay.add(line);
      if (resume.kind === "behind" && caughtUp !== undefined && isMissing(resume.last, replay, caughtUp))
        throw new Missing("the engine answers other lines each time");
    }
    return lines.subarray(lines.length);
  }

  async #write(fresh: Buffer, signal: AbortSignal): Promise<void> {
    if (this.#resume.kind === "gap") await this.#announceGap(fresh, signal);
    await this.output.appendWithRetries(fresh, signal, async (part) => {
      this.#resume = { kind: "behind", last: lastLine(part) };
      await this.output.saveWhenDue(this.#position);
    });
  }

  async #announceGap(next: Buffer, signal: AbortSignal): Promise<void> {
    await this.output.lock.run(async () => {
      signal.throwIfAborted();
      this.#resume = { kind: "announced", time: timeIn(next) };
      await this.#marker.announceBefore(next);
    });
    await this.#writeNotice(signal);
  }

  /** The notice was recorded before, so that it is written once although the process is killed in between. */
  async #writeNotice(signal: AbortSignal): Promise<void> {
    await retryWrite(() => this.output.lock.run(() => this.#marker.write()), signal);
  }

  async #finished(): Promise<void> {
    this.#stopListening();
    await this.output.lock.run(async () => {
      await this.output.save(this.#position, { finished: true });
      await this.output.close();
    });
  }
}

/** Whether the log continues with `line`. */
function isBehind(line: Buffer, resume: ResumePoint): boolean {
  switch (resume.kind) {
    case "start":
      return true;
    case "behind":
      return false;
    // Times have the same length and zone: they sort as text.
    case "gap":
      return timeIn(line) > resume.time;
    case "announced":
      return timeIn(line) >= resume.time;
  }
}

/** Whether a followed replay has passed the place of `last`, which a replay has had just before. */
function isMissing(last: Buffer, { lines, newest }: Replay, caughtUp: Replay): boolean {
  return caughtUp.hasStepBack ? lines > caughtUp.lines : newest > secondIn(last) + disorderSeconds;
}

/** The second from which a replay has all lines behind the resume point. */
function sinceOf(resume: ResumePoint): number {
  switch (resume.kind) {
    case "start":
      return resume.since;
    case "behind":
      return beforeSecond(secondIn(resume.last));
    default:
      return beforeSecond(secondOf(resume.time));
  }
}
