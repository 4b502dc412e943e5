/** Writes a recording, line by line: what is there counts, wherever the recording is cut off. */
import { createReadStream } from "node:fs";
import { open, type FileHandle } from "node:fs/promises";
import { ShimError } from "../../lib/errors.js";
import { fileError, hasCode } from "../../lib/files/file-errors.js";
import { textAt } from "../answers/answer-shape.js";
import type { PipedCall } from "../relay/call-pipe.js";
import { decodeCall } from "../relay/cri-messages.js";
import type { RecordedCall, RecordingEnd, RecordingHeader } from "./recording.js";
import type { Redactor } from "./redact.js";

export interface RecorderOptions {
  readonly redactor: Redactor;
  /** On the clock of the calls. */
  readonly startedMs: number;
  readonly limitBytes: number;
}

/** Makes the file, for its owner alone, with the header. Throws `conflict` when there is one. */
export async function createRecording(path: string, header: RecordingHeader): Promise<void> {
  let file: FileHandle;
  try {
    file = await open(path, "wx", 0o600);
  } catch (error) {
    if (!hasCode(error, "EEXIST")) throw fileError("write recording", path, error);
    throw new ShimError(
      "conflict",
      `write recording ${JSON.stringify(path)}: the file exists; choose another name, or remove it`,
    );
  }
  try {
    await file.writeFile(`${JSON.stringify(header)}\n`);
  } catch (error) {
    throw fileError("write recording", path, error);
  } finally {
    await file.close();
  }
}

/** To be disposed of, also when it is not ended. */
export class Recorder {
  #bytes = 0;
  #calls = 0;
  #dropped = 0;

  private constructor(
    private readonly file: FileHandle,
    private readonly path: string,
    private readonly options: RecorderOptions,
  ) {}

  /** Goes on behind the last whole line of a file that `createRecording` has made. */
  static async open(path: string, options: RecorderOptions): Promise<Recorder> {
    let file: FileHandle | undefined;
    try {
      const { lines, bytes } = await wholeLines(path);
      file = await open(path, "a");
      await file.truncate(bytes);
      const recorder = new Recorder(file, path, options);
      recorder.#bytes = bytes;
      recorder.#calls = lines - 1;
      // Numbers of the recorder before this one: each took more than a byte.
      if (recorder.#calls > 0) options.redactor.skipNumbers(bytes);
      return recorder;
    } catch (error) {
      await file?.close();
      throw fileError("write recording", path, error);
    }
  }

  /** False when the recording is as large as it may be: the call is not in it. */
  async write(call: PipedCall): Promise<boolean> {
    this.#dropped = call.unobserved.dropped;
    const recorded = this.#recorded(call);
    if (recorded === undefined) return true;
    const line = `${JSON.stringify(recorded)}\n`;
    const bytes = Buffer.byteLength(line);
    if (this.#bytes + bytes > this.options.limitBytes) return false;
    await this.#append(line);
    this.#bytes += bytes;
    this.#calls += 1;
    return true;
  }

  async end(reason: RecordingEnd["reason"]): Promise<void> {
    const end: RecordingEnd = { end: true, calls: this.#calls, dropped: this.#dropped, reason };
    await this.#append(`${JSON.stringify(end)}\n`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.file.close();
  }

  async #append(line: string): Promise<void> {
    try {
      await this.file.appendFile(line);
    } catch (error) {
      throw fileError("write recording", this.path, error);
    }
  }

  #recorded(call: PipedCall): RecordedCall | undefined {
    const decoded = decodeCall(call);
    if (decoded === undefined) return undefined;
    const { redactor, startedMs } = this.options;
    const { rpc, isStream, request, responses, isIncomplete } = decoded;
    // The request first: its answers may repeat its secrets.
    const asked = request === undefined ? {} : { request: redactor.message(request) };
    const answers = responses.map((response) => redactor.message(response));
    const made = rpc === "CreateContainer" ? textAt(answers[0], "container_id") : "";
    // Without the request its variables are not known.
    if (made !== "" && request !== undefined) redactor.addContainer(made);
    const { status, end } = call;
    const failed = status !== undefined && status.code !== 0;
    return {
      at: milliseconds(call.startedMs - startedMs),
      ms: milliseconds(call.endedMs - call.startedMs),
      rpc,
      ...asked,
      ...(isStream ? { responses: answers } : answers[0] === undefined ? {} : { response: answers[0] }),
      ...(failed ? { error: { code: status.code, message: redactor.text(status.message) } } : {}),
      ...(end === "answered" ? {} : { end }),
      ...(isIncomplete ? { truncated: true as const } : {}),
    };
  }
}

async function wholeLines(path: string): Promise<{ readonly lines: number; readonly bytes: number }> {
  let lines = 0;
  let bytes = 0;
  let position = 0;
  for await (const chunk of createReadStream(path) as AsyncIterable<Buffer>) {
    for (let feed = chunk.indexOf(0x0a); feed >= 0; feed = chunk.indexOf(0x0a, feed + 1)) {
      lines += 1;
      bytes = position + feed + 1;
    }
    position += chunk.length;
  }
  return { lines, bytes };
}

/** With two decimals. */
function milliseconds(value: number): number {
  return Math.max(0, Math.round(value * 100) / 100);
}
