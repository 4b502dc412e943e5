/** Lines of the CRI's format from the logs API, and how its replays are compared by them. */
import type { Engine, LogStream } from "../../ports/engine.js";
import type { ClockSteps } from "./clock-steps.js";
import { LineBuffer, TimedLineAssembler } from "../cri-lines.js";
import { OutputBatch } from "../output-batch.js";
import { secondOf } from "./replay.js";

const newline = 0x0a;

export interface ApiSource {
  readonly engine: Pick<Engine, "containerLogs">;
  readonly containerId: string;
  readonly tty: boolean;
  readonly logDriver: string;
  readonly clockSteps: Pick<ClockSteps, "onSetBack">;
}

/**
 * Hands over whole lines, several at a time, until `stream` ends. They are valid until `take` has returned.
 */
export async function readLines(
  stream: LogStream,
  quirks: { readonly losesLineEnds: boolean },
  take: (lines: Buffer) => Promise<void>,
): Promise<void> {
  const lines = new LineBuffer();
  const assemblers = {
    stdout: new TimedLineAssembler("stdout", lines, quirks),
    stderr: new TimedLineAssembler("stderr", lines, quirks),
  };
  const batch = new OutputBatch(() => take(lines.take()));
  await stream.readOutput((name, data, endsMessage) => {
    assemblers[name].push(data);
    if (endsMessage) assemblers[name].end();
    return batch.settled();
  });
  assemblers.stdout.end();
  assemblers.stderr.end();
  await take(lines.take());
}

export function timeIn(line: Buffer): string {
  return line.toString("latin1", 0, Math.max(0, line.indexOf(0x20)));
}

export function secondIn(line: Buffer): number {
  return secondOf(line.toString("latin1", 0, 19));
}

export function lastLine(lines: Buffer): Buffer {
  const before = lines.length < 2 ? -1 : lines.lastIndexOf(newline, lines.length - 2);
  return Buffer.from(lines.subarray(before + 1));
}

export interface Gap {
  /**
   * `suspected`: a replay has not the lines that were written, of which `time` is the last one's; empty when
   * the replay has only lines that came later. `announced`: there is a notice of the gap, written or about to
   * be, and `time` is that of the first line after it.
   */
  readonly kind: "suspected" | "announced";
  readonly time: string;
}

/** To be read once more, from the start of the replay. */
export class Restart extends Error {
  constructor(reason = "the engine answers other lines each time") {
    super(reason);
  }
}
